"""Speech engines: words, languages and speakers from sound, behind one narrow interface.

Handlers ask the `registry`; nothing of a library's own types leaves this package.
"""
