"""The tests test this checkout, whatever the Python that runs them has installed."""

from pathlib import Path

import torch_pjrt
from subprocess_support import output_of

PACKAGE = Path(__file__).parents[1] / "python" / "torch_pjrt"


def test_the_package_and_its_extension_are_this_checkouts():
    assert Path(torch_pjrt.__file__).parent == PACKAGE
    assert Path(torch_pjrt._C.__file__).parent == PACKAGE


def test_programs_that_tests_start_use_it_too():
    program = "import torch_pjrt; print(torch_pjrt.__file__)"
    assert Path(output_of(program)).parent == PACKAGE
    assert Path(output_of("import torch; " + program)).parent == PACKAGE
