"""What `torch.compile(…, backend="pjrt", options={…})` understands."""

import dataclasses
from collections.abc import Mapping

import torch


@dataclasses.dataclass(frozen=True)
class Options:
    """`device`: the xla device on which a function runs that has no xla tensor; None leaves it
    where its tensors are. `fallback`: whether operators without a lowering may run on the CPU.
    `inductor`: whether parts on other devices than xla are compiled by Inductor."""

    device: torch.device | None = None
    fallback: bool = True
    inductor: bool = False

    @staticmethod
    def read(options: Mapping[str, object] | None, mode: str | None) -> "Options":
        if mode not in (None, "default"):
            raise ValueError(
                f"torch.compile with backend 'pjrt': no such mode; got mode={mode!r}, expected "
                "'default'; modes are Inductor's, leave it out"
            )
        values = dict(options or {})
        names = [field.name for field in dataclasses.fields(Options)]
        for name in values:
            if name not in names:
                raise ValueError(
                    f"torch.compile with backend 'pjrt': no such option; got {name!r}, expected "
                    f"one of {', '.join(map(repr, names))}"
                )
        if values.get("device") is not None:
            values["device"] = _xla_device(values["device"])
        for name in ("fallback", "inductor"):
            if not isinstance(values.get(name, True), bool):
                raise ValueError(
                    f"torch.compile with backend 'pjrt': option {name!r} is a switch; got "
                    f"{values[name]!r}, expected True or False"
                )
        return Options(**values)


def _xla_device(device: object) -> torch.device:
    try:
        chosen = torch.device("xla", device) if isinstance(device, int) else torch.device(device)
    except (RuntimeError, TypeError):
        chosen = None
    if chosen is None or chosen.type != "xla":
        raise ValueError(
            f"torch.compile with backend 'pjrt': option 'device' is no xla device; got {device!r}, "
            "expected 'xla' or 'xla:N'"
        )
    return torch.device("xla", torch.xla.current_device() if chosen.index is None else chosen.index)
