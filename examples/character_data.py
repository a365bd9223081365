"""Real English text as characters: the help topics that Python's standard library ships."""

import torch


class CharacterText:
    """The text as one int64 tensor on `device`, and batches of windows from it."""

    def __init__(self, device: torch.device):
        from pydoc_data.topics import topics

        text = "\n\n".join(topics[name] for name in sorted(topics))
        # Rare characters (arrows, accents) would only widen the last layer.
        text = "".join(c for c in text if c == "\n" or " " <= c <= "~")
        self.alphabet = sorted(set(text))
        self._code = {character: code for code, character in enumerate(self.alphabet)}
        self._device = device
        self._data = torch.tensor([self._code[c] for c in text])

    def encode(self, text: str) -> torch.Tensor:
        return torch.tensor([self._code[c] for c in text], device=self._device)

    def decode(self, codes: list[int]) -> str:
        return "".join(self.alphabet[code] for code in codes)

    def batch(
        self, count: int, length: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Random windows (count, length), and the same moved on by one character."""
        starts = torch.randint(len(self._data) - length, (count, 1), generator=generator)
        windows = self._data[starts + torch.arange(length + 1)].to(self._device)
        return windows[:, :-1], windows[:, 1:]
