"""Uploads: rows that count durable bytes, where the bytes go, what the file is."""
