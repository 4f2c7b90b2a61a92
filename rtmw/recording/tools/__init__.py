"""What is done with recordings as files: look, check, recover, cut, merge, export."""
