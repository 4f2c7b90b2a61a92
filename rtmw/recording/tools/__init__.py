"""The operations on recordings as files: look, check, recover, cut, merge, export."""
