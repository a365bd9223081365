"""A worker process: reads names, a line each, and writes a JSON line before and after each."""

import json
import sys
import warnings


def main() -> None:
    settings = json.loads(sys.argv[1])
    # What operators print must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    warnings.simplefilter("ignore")
    import torch

    from operator_scan import comparison

    torch.set_num_threads(1)

    def tell(value) -> None:
        print(json.dumps(value), file=answers, flush=True)

    tell({"ready": True})
    for line in sys.stdin:
        name = line.strip()
        for result in comparison.compare(name, **settings):
            tell({"result": result})
        tell({"done": name})


if __name__ == "__main__":
    main()
