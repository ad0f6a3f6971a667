"""A Tree is the text of the repository as the rules see it: tracked files, and new ones."""

import pathlib
import subprocess

CORPUS = "tests/fuzz/corpus/"  # inputs of fuzz targets: bytes, not text


class Tree:
    """Files by path from the root; rules read only from here, so that tests can make trees."""

    def __init__(self, files: dict[str, bytes]):
        self.files = files

    @classmethod
    def of_checkout(cls, root: pathlib.Path) -> "Tree":
        # The directory may belong to someone else than who runs the tests, as in containers.
        command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-coz",
                   "--exclude-standard", "--deduplicate"]
        names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
        return cls({name: (root / name).read_bytes()
                    for name in names if name and (root / name).is_file()})

    def paths(self, *suffixes: str, under: tuple[str, ...] = ()) -> list[str]:
        """Paths that end in one of `suffixes` and lie in one of the folders `under`."""
        return sorted(path for path in self.files
                      if (not suffixes or path.endswith(suffixes))
                      and (not under or path.startswith(under))
                      and not path.startswith(CORPUS))

    def is_binary(self, path: str) -> bool:
        try:
            return "\0" in self.files[path].decode()
        except UnicodeDecodeError:
            return True

    def text(self, path: str) -> str:
        """Empty for a file that isn't there: the rules that need it then find nothing in it."""
        return self.files.get(path, b"").decode(errors="replace")

    def lines(self, path: str) -> list[str]:
        return self.text(path).splitlines()
