"""Lets fairseq's reading ahead end before Python does.

fairseq collates batches ahead in a daemon thread. A training that stops within an epoch (``--max-update``,
``--stop-time-hours``) leaves it at work, and where Python exits while it is inside torch the process aborts: "terminate
called without an active exception", status 134, although everything was saved (pytorch issue 38228).
"""

import atexit
import queue
import threading
import time

from fairseq.data.iterators import BackgroundConsumer

PATIENCE = 10  # seconds; a batch takes milliseconds


@atexit.register
def stop_reading_ahead() -> None:
    """End fairseq's reading threads: each after the batch at hand."""
    limit = time.monotonic() + PATIENCE
    for thread in threading.enumerate():
        if not isinstance(thread, BackgroundConsumer):
            continue
        thread._max_len = 0
        while thread.is_alive() and time.monotonic() < limit:
            try:
                thread._queue.get_nowait()  # makes room: it may be waiting to put a batch there
            except queue.Empty:
                thread.join(0.01)
