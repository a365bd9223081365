"""Scans operators in worker processes, so that a crash or a hang counts against one of them."""

import json
import os
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from operator_scan.comparison import Result

TOOLS = Path(__file__).resolve().parents[1]
START_SECONDS = 180  # importing PyTorch's operator database takes long on a busy machine


class Worker:
    """One process; ask it for one operator at a time."""

    def __init__(self, settings: dict):
        path = os.pathsep.join([str(TOOLS.parent / "python"), str(TOOLS)])
        inherited = os.environ.get("PYTHONPATH")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "operator_scan.worker", json.dumps(settings)],
            env={
                **os.environ,
                "PYTHONPATH": f"{path}{os.pathsep}{inherited}" if inherited else path,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answers = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._answers.get(timeout=START_SECONDS)

    def _listen(self) -> None:
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def compare(self, name: str, timeout: float) -> tuple[list[Result], bool]:
        """The results, and whether the worker still lives."""
        results = []
        try:
            self._process.stdin.write(name + "\n")
            self._process.stdin.flush()
            while (answer := self._answers.get(timeout=timeout)) is not None:
                if "done" in answer:
                    return results, True
                results.append(Result(*answer["result"]))
            problem = Result(name, "", "crash", 0, f"exit status {self._process.wait()}")
        except queue.Empty:
            problem = Result(name, "", "timeout", 0, f"no answer in {timeout:g} s")
        except BrokenPipeError:
            problem = Result(name, "", "crash", 0, f"exit status {self._process.wait()}")
        self.close()
        return [*results, problem], False

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def scan(names: list[str], settings: dict, chunk: int, timeout: float, jobs: int) -> list[Result]:
    """Results in the order of `names`; each worker takes `chunk` operators."""
    chunks = [names[i : i + chunk] for i in range(0, len(names), chunk)]
    with tqdm(total=len(names), unit="op") as progress, ThreadPoolExecutor(jobs) as pool:

        def run(part: list[str]) -> list[Result]:
            worker, found = None, []
            for name in part:
                worker = worker or Worker(settings)
                results, alive = worker.compare(name, timeout)
                found += results
                worker = worker if alive else None
                progress.set_postfix_str(name)
                progress.update()
            if worker:
                worker.close()
            return found

        return [result for results in pool.map(run, chunks) for result in results]
