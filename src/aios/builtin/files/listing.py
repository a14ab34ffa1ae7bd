"""Very many files in little memory.

A million files as Python objects would take half a gigabyte; as columns they take some 90 bytes each. Folders are kept as
(parent, name), because the full paths of a deep tree grow with the square of its depth.
"""

from __future__ import annotations

from array import array

from aios.builtin.files.beneath import Identity, Parts

ROOT = 0
"""Number of the root among the folders."""


class _Names:
    """Many byte strings, end to end in one buffer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ends = array("Q")

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, name: bytes) -> None:
        self._buffer += name
        self._ends.append(len(self._buffer))

    def __getitem__(self, number: int) -> bytes:
        start = self._ends[number - 1] if number else 0
        return bytes(self._buffer[start : self._ends[number]])


class Listing:
    """The files of a tree by number, in the order in which they were found."""

    def __init__(self) -> None:
        self._folder_parents = array("I", [ROOT])
        self._folder_names = _Names()
        self._folder_names.add(b"")
        self._folders = array("I")
        self._names = _Names()
        self._devices = array("Q")
        self._inodes = array("Q")
        self._mtimes = array("q")
        self._ctimes = array("q")
        self.sizes = array("q")
        self.links = array("I")
        """How many names each file has, on the whole file system."""

    def __len__(self) -> int:
        return len(self._folders)

    def add_folder(self, parent: int, name: bytes) -> int:
        """Note a folder and give its number."""
        self._folder_parents.append(parent)
        self._folder_names.add(name)
        return len(self._folder_parents) - 1

    def add(self, folder: int, name: bytes, found: Identity, *, links: int) -> None:
        """Note a file."""
        self._folders.append(folder)
        self._names.add(name)
        self._devices.append(found.device)
        self._inodes.append(found.inode)
        self._mtimes.append(found.mtime_ns)
        self._ctimes.append(found.ctime_ns)
        self.sizes.append(found.size)
        self.links.append(min(links, 0xFFFFFFFF))

    def parts(self, folder: int) -> Parts:
        """Give a folder's path."""
        names: list[bytes] = []
        while folder != ROOT:
            names.append(self._folder_names[folder])
            folder = self._folder_parents[folder]
        return tuple(reversed(names))

    def folder(self, number: int) -> int:
        """Give the number of the folder that a file is in."""
        return self._folders[number]

    def name(self, number: int) -> bytes:
        """Give a file's own name."""
        return self._names[number]

    def path(self, number: int) -> bytes:
        """Give a file's path, relative to the root."""
        return b"/".join((*self.parts(self._folders[number]), self._names[number]))

    def inode(self, number: int) -> tuple[int, int]:
        """Give what two names of one file have in common: device and inode."""
        return self._devices[number], self._inodes[number]

    def mtime_ns(self, number: int) -> int:
        """Give when a file was last written."""
        return self._mtimes[number]

    def identity(self, number: int) -> Identity:
        """Give what must be the same again before anything is done with a file."""
        return Identity(
            self._devices[number],
            self._inodes[number],
            self.sizes[number],
            self._mtimes[number],
            self._ctimes[number],
        )
