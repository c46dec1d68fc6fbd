"""The command kevel-apiserver: kube-apiserver with the same arguments."""

import os
import sys

from kevel_apiserver import program


def main():
    """Becomes the program, so that signals and the exit code are its own."""
    os.execv(program(), [program(), *sys.argv[1:]])


if __name__ == "__main__":
    main()
