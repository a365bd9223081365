"""Trains a character-level transformer on Python's own help texts, then lets it write.

python examples/character_transformer.py --device xla
"""

import argparse
import sys
import time

import torch
from torch.nn import functional
from tqdm import tqdm

import training_report as report
from character_data import CharacterText
from decoder import Decoder

BATCH = 16


def train(
    network: Decoder, text: CharacterText, *, steps: int, seed: int
) -> tuple[list[float], list[float]]:
    """Losses and seconds of each step."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps + 1)
    generator = torch.Generator().manual_seed(seed)
    losses, seconds = [], []
    with tqdm(total=steps, unit="step", dynamic_ncols=True) as bar:
        while len(losses) < steps:
            start = time.perf_counter()
            codes, targets = text.batch(BATCH, network.length, generator)
            optimizer.zero_grad()
            loss = functional.cross_entropy(network(codes).flatten(0, 1), targets.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - start)
            bar.update()
            bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return losses, seconds


@torch.no_grad()
def write(network: Decoder, text: CharacterText, prompt: str, count: int) -> str:
    """Continues `prompt` by `count` characters, drawn by their probability.

    The window has one fixed length, so that one program serves every character.
    """
    network.eval()
    device = network.positions.device
    window = torch.zeros(1, network.length, dtype=torch.int64, device=device)
    start = text.encode(prompt)[-network.length :]
    window[0, : len(start)] = start
    filled, written = len(start), []
    for _ in range(count):
        logits = network(window)[0, filled - 1]
        # On the host, so that the sample does not depend on the device's random numbers.
        code = int(torch.multinomial(functional.softmax(logits.float().cpu() / 0.8, 0), 1))
        written.append(code)
        if filled == network.length:
            window = window.roll(-1, 1)
            window[0, -1] = code
        else:
            window[0, filled] = code
            filled += 1
    network.train()
    return prompt + text.decode(written)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="character_transformer")
    parser.add_argument("--device", default="xla", help="default xla; cpu or cuda to compare")
    parser.add_argument("--steps", type=int, metavar="N", help="default 300")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompt", default="The ", help="what the sample starts with")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--short", action="store_true", help="25 steps and a short sample, for CI")
    options = parser.parse_args(arguments)
    if options.steps is None:
        options.steps = 25 if options.short else 300
    if options.steps < 1:
        parser.error(f"--steps: too few; got {options.steps}, expected at least 1")
    if not 0 <= options.dropout < 1:
        parser.error(f"--dropout: got {options.dropout}, expected 0 to below 1")
    try:
        options.device = torch.device(options.device)
        if options.device.type == "xla":
            import torch_pjrt  # noqa: F401
        torch.empty(1, device=options.device)
    except ImportError as error:
        parser.error(f"--device xla: torch_pjrt is not installed ({error}); run `make`, or use cpu")
    except (RuntimeError, AssertionError) as error:
        parser.error(f"--device: {error}")
    options.text = CharacterText(options.device)
    unknown = set(options.prompt) - set(options.text.alphabet)
    if unknown or not options.prompt:
        parser.error(f"--prompt: got {options.prompt!r}, expected some printable ASCII text")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    counters = report.Counters(options.device.type == "xla")
    torch.manual_seed(options.seed)
    network = Decoder(len(options.text.alphabet), dropout=options.dropout).to(options.device)
    losses, seconds = train(network, options.text, steps=options.steps, seed=options.seed)
    last = losses[-10:]
    print(f"loss: {losses[0]:.3f} at the first step, {sum(last) / len(last):.3f} at the end")
    report.print_step_time(seconds)
    report.print_counters(counters)
    print("sample:")
    print(write(network, options.text, options.prompt, 12 if options.short else 400))
    return 0


if __name__ == "__main__":
    sys.exit(main())
