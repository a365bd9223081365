"""Writes the generated pages under docs/; with --check, fails where one is out of date.

`python tools/generate_docs` writes all, `python tools/generate_docs operators` one.
"""

import argparse
import sys
from pathlib import Path

import configuration

import chaos
import operators

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"chaos": chaos.page, "configuration": configuration.page, "operators": operators.page}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(PAGES)}")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args()
    if unknown := set(options.pages) - set(PAGES):
        parser.error(f"no such page: {', '.join(unknown)}; there are {', '.join(PAGES)}")

    failed = False
    for name in options.pages or PAGES:
        path = ROOT / "docs" / f"{name}.md"
        try:
            text = PAGES[name](ROOT)
        except LookupError as error:
            print(f"docs/{name}.md: {error}", file=sys.stderr)
            failed = True
            continue
        if text is None:
            print(f"docs/{name}.md: not checked, what it describes is not built")
        elif not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"docs/{name}.md is out of date: run `python tools/generate_docs {name}`")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
