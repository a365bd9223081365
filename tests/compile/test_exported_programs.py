"""`torch_pjrt.export` and `load`: what a loaded program computes is what the module computes."""

import json

import pytest
import torch

import torch_pjrt
from subprocess_support import output_of
from torch_pjrt import discovery


class Everything(torch.nn.Module):
    """Parameters, buffers that are written, a lifted constant, an input that is written, a number,
    nested outputs."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.constant = torch.tensor([1.0, -2.0, 3.0])

    def forward(self, x, scale=2, *, shift):
        self.calls.add_(1)
        x.mul_(scale)
        y = self.norm(self.linear(x)) - shift + self.constant
        return {"y": y, "rest": (y.t(), None, 7, self.linear.weight * 2)}


def exported(module, args, kwargs=None):
    return torch.export.export(module, args, kwargs or {})


def saved(tmp_path, module, args, kwargs=None):
    torch_pjrt.export(exported(module, args, kwargs), tmp_path / "program")
    return torch_pjrt.load(tmp_path / "program")


def same(got, expected):
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-6)
    assert got.stride() == expected.stride()


def test_the_module_and_its_program_agree_call_by_call(tmp_path):
    torch.manual_seed(0)
    module = Everything()
    shift = torch.rand(3)
    program = saved(tmp_path, module, (torch.rand(5, 4),), {"scale": 3, "shift": shift})
    for _ in range(3):
        given = torch.rand(5, 4)
        mine, theirs = given.clone(), given.clone()
        got = program(mine, scale=3, shift=shift)
        expected = module(theirs, scale=3, shift=shift)
        same(got["y"], expected["y"].detach())
        same(got["rest"][0], expected["rest"][0].detach())
        assert got["rest"][1:3] == (None, 7)
        same(got["rest"][3], expected["rest"][3].detach())
        assert torch.equal(mine, theirs)
    state = module.state_dict()
    assert set(program.weights) == {*state, "constant"}
    for name, expected in state.items():
        same(program.weights[name], expected)


class InOddOrder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.late = torch.nn.Parameter(torch.tensor([5.0]))
        self.early = torch.nn.Parameter(torch.tensor([3.0]))

    def forward(self, b, a, c):
        return c - self.early * a, (b / self.late) ** 2, b


def test_arguments_keep_their_places(tmp_path):
    a, b, c = (torch.tensor([v]) for v in (2.0, 11.0, 7.0))
    module = InOddOrder()
    program = saved(tmp_path, module, (b, a), {"c": c})
    for got, expected in zip(program(b, a, c=c), module(b, a, c=c), strict=True):
        same(got, expected.detach())
    # On the device already, and as a view with an offset and gaps.
    wide = torch.tensor([0.0, 2.0, 0.0]).to("xla")
    got = program(b.to("xla"), wide[1::2], c=c)
    same(got[0], module(b, a, c=c)[0].detach())


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 6)
        self.head = torch.nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last)

    def forward(self, ids, image):
        return self.head(self.embedding(ids)), self.conv(image)


def test_tied_and_permuted_weights_and_index_checks(tmp_path):
    module = Tied().eval()
    ids = torch.tensor([[1, 9], [0, 3]])
    image = torch.rand(2, 3, 5, 5).to(memory_format=torch.channels_last)
    program = saved(tmp_path, module, (ids, image))
    for got, expected in zip(program(ids, image), module(ids, image), strict=True):
        torch.testing.assert_close(got.cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
    with pytest.raises(IndexError, match="embedding"):
        program(torch.tensor([[1, 10], [0, 3]]), image)[0].cpu()
    same(program(ids, image)[0], module(ids, image)[0].detach())


def test_attention_is_exported(tmp_path):
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.rand(2, 3, 8)
    same(saved(tmp_path, module, (x,))(x), module(x).detach())


class WithoutArguments(torch.nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self):
        made = torch.arange(3) * 2
        return made if self.weight is None else (self.weight.add_(1), made * self.weight)


@pytest.mark.parametrize("weight", [None, torch.tensor([1.0, 2.0, 3j], dtype=torch.complex128)])
def test_a_program_without_arguments(tmp_path, weight):
    module = WithoutArguments(weight)
    program = saved(tmp_path, module, ())
    for _ in range(2):
        got, expected = program(), module()
        if weight is None:
            same(got, expected)
        else:
            for mine, its in zip(got, expected, strict=True):
                same(mine, its)


class Kinds(torch.nn.Module):
    def forward(self, x, flags, small):
        return x, x.view(torch.int32), ~flags, small + 1, x.sum(), x[:0], torch.arange(3)


@pytest.mark.parametrize("small", [torch.bfloat16, torch.uint8, torch.float64, torch.complex64])
def test_dtypes_and_outputs_of_every_kind(tmp_path, small):
    x, flags, value = torch.rand(3, 2), torch.tensor([True, False]), torch.ones(2).to(small)
    module = Kinds()
    program = saved(tmp_path, module, (x, flags, value))
    for got, expected in zip(program(x, flags, value), module(x, flags, value), strict=True):
        assert got.device.type == "xla" and got.dtype == expected.dtype
        same(got, expected)


def test_every_plugin_runs_the_text(tmp_path):
    module = Tied().eval()
    ids, image = torch.tensor([[1, 9], [0, 3]]), torch.rand(2, 3, 5, 5)
    folder = tmp_path / "program"
    torch_pjrt.export(exported(module, (ids, image)), folder)
    torch.save(((ids, image), [y.detach() for y in module(ids, image)]), tmp_path / "expected")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["stablehlo_version"].split(".")) == 3
    assert (folder / "program.mlir").read_text().startswith("module")
    program = f"""
        import torch, torch_pjrt
        arguments, expected = torch.load({str(tmp_path / "expected")!r})
        for got, wanted in zip(torch_pjrt.load({str(folder)!r})(*arguments), expected):
            torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-5)
        print(torch_pjrt._C.plugin_path())
    """
    plugins = discovery.plugins()
    assert len(plugins) == 3
    for plugin in plugins:
        assert output_of(program, TORCH_PJRT_PLUGIN=str(plugin.path)) == str(plugin.path)


class Dropping(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, training=True)


class Reading(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.svd(x)[1]


class Branching(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        (lambda: torch.nn.Linear(2, 2), TypeError, "got Linear, expected an ExportedProgram"),
        (lambda: exported(Dropping(), (torch.ones(3),)), NotImplementedError, "random numbers"),
        (lambda: exported(Reading(), (torch.ones(3, 3),)), NotImplementedError, "svd"),
        (
            lambda: exported(Branching(), (torch.ones(3),)),
            NotImplementedError,
            "got cond .*, which reads a value on the host",
        ),
        (
            lambda: torch.export.export(
                torch.nn.ReLU(), (torch.ones(3),), dynamic_shapes=({0: torch.export.Dim("n")},)
            ),
            NotImplementedError,
            "without dynamic_shapes",
        ),
    ],
)
def test_what_cannot_be_exported_leaves_nothing_behind(tmp_path, program, error, words):
    with pytest.raises(error, match=words):
        torch_pjrt.export(program(), tmp_path / "program")
    assert not (tmp_path / "program").exists()


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(FileExistsError, match="give a new path"):
        torch_pjrt.export(exported(torch.nn.ReLU(), (torch.ones(3),)), tmp_path)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((), TypeError, "structure"),
        ((torch.ones(3), torch.ones(3)), TypeError, "n is a constant .* got Tensor, expected int"),
        ((torch.ones(3, dtype=torch.float64), 2), TypeError, "torch.float64, expected torch.float"),
        ((torch.ones(4), 2), ValueError, r"sizes \[4\], expected \[3\]"),
        ((torch.ones(3), 5), ValueError, "got 5, expected 2"),
        (([1.0, 2.0, 3.0], 2), TypeError, "structure"),
        ((7, 2), TypeError, "got int, expected a tensor"),
        ((torch.ones(3, requires_grad=True), 2), RuntimeError, "torch.no_grad"),
    ],
)
def test_other_arguments_are_refused(tmp_path, arguments, error, words):
    class Times(torch.nn.Module):
        def forward(self, x, n):
            return x * n

    program = saved(tmp_path, Times(), (torch.ones(3), 2))
    with pytest.raises(error, match=words):
        program(*arguments)
    with torch.no_grad():
        same(program(torch.ones(3, requires_grad=True), 2), torch.full((3,), 2.0))


def test_a_damaged_folder_is_refused(tmp_path):
    folder = tmp_path / "program"
    torch_pjrt.export(exported(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), folder)
    with pytest.raises(FileNotFoundError):
        torch_pjrt.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="expected an xla device"):
        torch_pjrt.load(folder, device="cpu")
    text = (folder / "program.mlir").read_text()
    (folder / "program.mlir").write_text(text.replace("stablehlo", "unknown"))
    with pytest.raises(RuntimeError):
        torch_pjrt.load(folder)
    (folder / "program.mlir").write_text(text)
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest.replace('"version": 1', '"version": 9'))
    with pytest.raises(ValueError, match="version 9"):
        torch_pjrt.load(folder)
