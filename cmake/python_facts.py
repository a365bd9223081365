"""Print what CMake asks the building Python as `name=value` lines; an empty value is absence."""

import importlib.util
import os
import sysconfig
from pathlib import Path


def package_dir(name: str) -> Path | None:
    """The folder of an installed package, found without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except ImportError:
        return None
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))).resolve() if locations else None


def pjrt_header_dir() -> str:
    folder = package_dir("xla_plugins.xla_cpu_pjrt")
    header = folder / "include" / "pjrt_c_api.h" if folder else None
    return str(header.parent) if header and header.is_file() else ""


def plugins() -> str:
    known = {
        "xla_plugins.xla_cpu_pjrt": "xla_cpu_pjrt.so",
        "fastatomstruct_xla_cpu": "libpjrt_cpu.so",
        "lammps_jax_pjrt_cpu": "pjrt_c_api_cpu_plugin.so",
    }
    found = []
    for package, library in known.items():
        folder = package_dir(package)
        if folder and (folder / library).is_file():
            found.append(str(folder / library))
    return ":".join(found)


def torch_facts() -> dict[str, str]:
    # Our own backend may be half built: importing torch must not load it.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch
    except ImportError as error:
        return {"torch_version": "", "torch_error": str(error)}

    folder = Path(torch.__file__).resolve().parent
    include = folder / "include"
    return {
        "torch_version": torch.__version__,
        "torch_include": f"{include};{include / 'torch/csrc/api/include'}",
        "torch_lib": str(folder / "lib"),
        "torch_cxx11_abi": str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
    }


facts = {
    "ext_suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "python_include": sysconfig.get_path("include"),
    "pjrt_header_dir": pjrt_header_dir(),
    "plugins": plugins(),
    **torch_facts(),
}
for name, value in facts.items():
    print(f"{name}={value}")
