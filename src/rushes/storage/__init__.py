"""Where bytes are kept: the interface, a directory of this machine, a bucket."""
