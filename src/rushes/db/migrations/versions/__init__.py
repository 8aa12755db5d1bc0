"""One module per revision, named by number and subject."""
