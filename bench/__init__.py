"""rtmw beside its peers and beside the machine itself, in one run; see README.md of this folder."""
