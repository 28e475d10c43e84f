"""Command-line tools around the plugin; nothing in the plugin imports them."""
