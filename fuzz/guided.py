"""Runs a target for raw bytes under atheris: `python -m fuzz.guided NAME [CORPUS] [options]`.

atheris is libFuzzer for Python: it changes inputs of the corpus, watches which lines of
`mcp_trio` they reach, and keeps those that reach new ones. What msgspec and other extensions in C
do it does not see; the lines around their calls it does. Options are libFuzzer's, such as
`-max_total_time=3600`, `-runs=10000` or a file to run once. Inputs that are found go to the first
folder named: name a folder of your own before `fuzz/corpora/NAME` to keep the seeds as they are.
"""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["mcp_trio"], enable_loader_override=False):
        from fuzz.raw import RAW

    if not arguments or arguments[0] not in RAW:
        sys.exit(f"{__doc__}\nNAME is one of {', '.join(RAW)}.")
    name, *options = arguments
    target = RAW[name]

    def run(data: bytes) -> None:
        target(data)

    folders = any(not option.startswith("-") for option in options)
    atheris.Setup([name, *options, *([] if folders else [f"fuzz/corpora/{name}"])], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
