"""Which system errors mean "the disk is full", and what to say then."""

import errno

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def disk_full_message(error: OSError) -> str:
    """The message for an ``OSError`` whose errno is in :data:`DISK_FULL`."""
    where = f" while writing {error.filename}" if error.filename else ""
    return (
        f"no space left for the files{where} ({error.strerror}); nothing half-written was kept. "
        "Free some space, or choose another disk with --out, and run the same command again"
    )
