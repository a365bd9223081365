"""Each row of docs/limits.md is true, and each is tested here under its name."""

import re
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import torch_pjrt
from chaos_support import LIBRARY, environment
from subprocess_support import output_of

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
ROWS = {
    row.replace("`", "") for row in re.findall(r"^\| (?!what \||-)(.+?) \|", PAGE, re.MULTILINE)
}
TESTED = set()


def limit(name):
    TESTED.add(name)
    return lambda function: function


@pytest.fixture
def x():
    return torch.arange(4.0).to("xla")


def stepped(optimizer, **options):
    parameter = torch.nn.Parameter(torch.ones(2, device="xla"))
    parameter.grad = torch.ones(2, device="xla")
    optimizer([parameter], **options).step()
    return parameter.detach().cpu()


@limit("torch.accelerator")
def test_accelerator():
    if torch.cuda.is_available():
        pytest.skip("torch.accelerator is cuda here")
    assert not torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="accelerator"):
        torch.accelerator.synchronize()


@limit("pin_memory")
def test_pin_memory(x):
    with pytest.raises(RuntimeError, match="pin"):
        x.pin_memory()
    if torch.cuda.is_available():
        pytest.skip("host tensors can be pinned for cuda")
    with pytest.raises(RuntimeError):
        torch.ones(2).pin_memory()
    with pytest.raises(RuntimeError):
        torch.empty(2, pin_memory=True)
    loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=4, pin_memory=True)
    with pytest.warns(UserWarning, match="pin_memory"):
        [batch] = loader
    assert not batch.is_pinned() and batch.to("xla").tolist() == [0, 1, 2, 3]


@limit("sparse tensors")
def test_sparse(x):
    with pytest.raises(NotImplementedError):
        x.reshape(2, 2).to_sparse()
    with pytest.raises(NotImplementedError):
        torch.eye(2).to_sparse().to("xla")
    with pytest.raises(NotImplementedError):
        torch.eye(2).to_sparse_csr().to("xla")


@limit("sparse gradients")
def test_sparse_gradients():
    table = torch.ones(3, 2, device="xla", requires_grad=True)
    rows = F.embedding(torch.tensor([1], device="xla"), table, sparse=True)
    with pytest.raises(NotImplementedError):
        rows.sum().backward()


@limit("nested tensors")
def test_nested(x):
    with pytest.raises(RuntimeError, match="[Nn]ested"):
        torch.nested.nested_tensor([x, x])
    jagged = torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged)
    assert (jagged + 1).values().tolist() == [1, 2, 3, 4, 1, 2]


@limit("quantised tensors")
def test_quantised(x):
    with pytest.raises(NotImplementedError, match="quantised"):
        torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    host = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    assert host.to("xla").device.type == "cpu"


@limit("to_mkldnn")
def test_mkldnn(x):
    with pytest.raises(NotImplementedError):
        x.to_mkldnn()


@limit("fused optimizers")
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused(name):
    with pytest.raises(RuntimeError, match="fused=True"):
        stepped(getattr(torch.optim, name), lr=0.1, fused=True)


@limit("capturable")
def test_capturable():
    plain, capturable = (stepped(torch.optim.Adam, capturable=value) for value in (False, True))
    torch.testing.assert_close(capturable, plain)
    with pytest.raises(AssertionError, match="capturable=True"):
        stepped(torch.optim.Adam, capturable=True, foreach=True)
    with pytest.raises(AssertionError, match="capturable=True"):
        stepped(torch.optim.Adadelta, capturable=True)


@limit("foreach=True of clip_grad_norm_ and clip_grad_value_")
def test_clipping_by_foreach(x):
    x.requires_grad_().sum().backward()
    for clip in (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_):
        with pytest.raises(RuntimeError, match="foreach API"):
            clip([x], 1.0, foreach=True)
        clip([x], 1.0)
    assert x.grad.tolist() == pytest.approx([0.5] * 4)
    assert torch.equal(stepped(torch.optim.SGD, foreach=True), stepped(torch.optim.SGD))


@limit("data_ptr()")
def test_data_ptr(x):
    other = torch.arange(4.0).to("xla")
    assert x.data_ptr() not in (0, other.data_ptr())
    assert x[1:].data_ptr() == x.data_ptr() + 4


@limit(".numpy()")
def test_numpy(x):
    with pytest.raises(TypeError, match="xla"):
        x.numpy()
    assert x.numpy(force=True).tolist() == x.cpu().numpy().tolist() == [0, 1, 2, 3]


@limit("__cuda_array_interface__")
def test_cuda_array_interface(x):
    with pytest.raises(AttributeError):
        _ = x.__cuda_array_interface__


@limit("storage methods")
def test_storage_methods(x):
    with pytest.raises(RuntimeError, match="xla"):
        x.untyped_storage().clone()
    with pytest.raises(RuntimeError, match="xla"):
        x.untyped_storage().resize_(64)
    assert x.tolist() == [0, 1, 2, 3]


@limit("share_memory_()")
def test_share_memory(x):
    assert x.share_memory_() is x and x.is_shared()
    with pytest.raises(RuntimeError):
        torch.multiprocessing.get_context("spawn").SimpleQueue().put(x)


@limit("moving a module with a live graph")
def test_move_with_live_graph():
    module = torch.nn.Linear(4, 2)
    loss = module(torch.ones(4)).sum()
    module.to("xla")
    with pytest.raises(RuntimeError, match="moved to another device"):
        loss.backward()
    module(torch.ones(4, device="xla")).sum().backward()


@limit("parameter.data = tensor")
def test_data_of_another_device(x):
    parameter = torch.nn.Parameter(torch.ones(4))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = x


@limit("torch.cuda.amp")
def test_cuda_amp():
    if torch.cuda.is_available():
        pytest.skip("torch.cuda.amp works here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not torch.cuda.amp.GradScaler().is_enabled()
        assert not torch.cuda.amp.autocast()._enabled
    assert torch.amp.GradScaler("xla").is_enabled()


@limit("torch.Event")
def test_event():
    with pytest.raises(RuntimeError, match="event"):
        torch.Event(device="xla").record()


@limit("legacy types")
def test_legacy_types():
    with pytest.raises(ValueError, match="invalid type"):
        torch.ones(2).type("torch.xla.FloatTensor")


@limit("torch.jit.script")
def test_jit_script(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(torch.nn.Linear(4, 2).to("xla"))
        with pytest.raises(RuntimeError, match="scripted module"):
            torch.jit.script(torch.nn.Linear(4, 2)).to("xla")
    assert scripted(x).device.type == "xla"


@limit("distribute_tensor")
def test_distribute_tensor():
    from torch.distributed import HashStore, destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(ImportError, match="torch_xla"):
            distribute_tensor(torch.ones(4), init_device_mesh("xla", (1,)), [Shard(0)])
    finally:
        destroy_process_group()


@limit("flex_attention")
def test_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    x = torch.ones(1, 1, 8, 4, device="xla")
    for call in (flex_attention, torch.compile(flex_attention, backend="pjrt")):
        with pytest.raises(ValueError, match="FlexAttention.*xla"):
            call(x, x, x)


@limit("bits dtypes")
def test_dtypes():
    with pytest.raises(TypeError, match="no such element type"):
        torch.empty(2, dtype=torch.bits8).to("xla")


@limit("equal elements")
@pytest.mark.skipif(not LIBRARY.exists(), reason="the chaos plugin is not built")
def test_equal_elements():
    equal = torch.zeros(40, dtype=torch.int64)
    assert torch.equal(equal.to("xla").sort().indices.cpu(), equal.sort().indices)
    program = """
    import torch
    import torch_pjrt
    equal = torch.zeros(40, dtype=torch.int64, device="xla")
    assert equal.topk(3).indices.tolist() == [0, 1, 2]
    assert equal.kthvalue(2).indices.item() == 1
    assert torch.equal(equal.sort().indices, equal.sort(stable=True).indices)
    zeros = torch.zeros(40, device="xla")
    zeros[::2] = -0.0
    assert zeros.topk(6).indices.tolist() == [0, 1, 2, 3, 4, 5]
    few = torch.randint(3, (100, 16))
    assert torch.equal(few.to("xla").sort().indices.cpu(), few.sort().indices)
    """
    output_of(program, **environment("hide_extensions=FFI"))


@limit("floats beyond an integer dtype")
def test_floats_beyond_integers():
    far = torch.tensor([1e20, -1e20, float("nan")], device="xla").to(torch.int32)
    assert far.tolist() == [2**31 - 1, -(2**31), 0]


@limit("matrix_exp of float16 and bfloat16")
def test_matrix_exponential_of_short_floats():
    for dtype in (torch.float16, torch.bfloat16):
        result = torch.matrix_exp(torch.zeros(2, 2, dtype=dtype, device="xla"))
        assert torch.equal(result.cpu(), torch.eye(2, dtype=dtype))


@limit("out= of another dtype")
def test_out_of_another_dtype():
    x, wide = torch.ones(2, 2), torch.empty(2, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="out tensor to have dtype"):
        torch.mm(x, x, out=wide)
    result = torch.mm(x.to("xla"), x.to("xla"), out=wide.to("xla"))
    assert result.cpu().equal(torch.full_like(wide, 2))


@limit("a product, then a sum")
def test_products_that_are_summed():
    x = torch.tensor([1 + 2**-12, 1e30])
    product = x * x
    assert torch.equal((x * x - product).nan_to_num(7.0), torch.tensor([0.0, 7.0]))
    x, product = x.to("xla"), product.to("xla")
    assert torch.equal((x * x - product).cpu(), torch.tensor([2**-24, -torch.inf]))
    torch_pjrt.config.mode = "eager"
    try:
        assert torch.equal((x * x - product).nan_to_num(7.0).cpu(), torch.tensor([0.0, 7.0]))
    finally:
        torch_pjrt.config.mode = "lazy"


@limit("std and var far from 1")
def test_deviations_far_from_one():
    x = torch.tensor([-1.0, 1.0, 0.0])
    for scale, result in ((1e30, torch.inf), (1e-30, 0.0)):
        assert (x * scale).to("xla").std().item() == result
        assert (x * scale).to("xla").double().std().item() == pytest.approx(scale)


@limit("NaN in the weight of a transposed convolution")
def test_weights_of_transposed_convolutions():
    x, weight = torch.ones(1, 4, 5), torch.ones(4, 8, 3)
    weight[2, 0, 0] = torch.nan
    results = [F.conv_transpose1d(x.to(d), weight.to(d)).cpu() for d in ("cpu", "xla")]
    spread = [int(result.isnan().sum()) for result in results]
    assert spread[0] < spread[1]


@limit("embedding_bag with scale_grad_by_freq")
def test_gradients_scaled_by_frequency():
    gradients = []
    for device in ("cpu", "xla"):
        weight = torch.ones(4, 1, device=device, requires_grad=True)
        indices = torch.tensor([[2, 1], [2, 3]], device=device)
        F.embedding_bag(indices, weight, mode="sum", scale_grad_by_freq=True).sum().backward()
        gradients.append(weight.grad.flatten().tolist())
    assert gradients[1] == [0, 1, 1, 1] != gradients[0]


def test_every_row_of_the_page_is_tested():
    assert ROWS == TESTED
