"""A worker: asks for jobs, runs their handlers, reports. It has no database."""
