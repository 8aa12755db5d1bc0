"""The API for people and scripts, one file per noun."""
