"""Backups that prove themselves; and a library held against its storage."""
