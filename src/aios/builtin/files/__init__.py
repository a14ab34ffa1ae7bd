"""The capabilities that look at files, and the one that removes some."""

from aios.builtin.files import checksums, duplicates, folders, searching
from aios.builtin.files.tool import files

__all__ = ["checksums", "duplicates", "files", "folders", "searching"]
