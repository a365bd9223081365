"""The chaos plugin knows every function of the header, read here in another way than its build."""

import re

from chaos_support import Chaos, pjrt_header


def test_every_function_of_the_header_is_there():
    text = pjrt_header().read_text()
    table = text[text.index("typedef struct PJRT_Api {") : text.index("} PJRT_Api;")]
    in_table = re.findall(r"\((PJRT_\w+)\);", table)
    declared = re.findall(r"^typedef (?:PJRT_Error\*|void) (PJRT_\w+)\(", text, re.MULTILINE)
    assert len(in_table) > 100
    assert Chaos().functions() == in_table
    assert set(in_table) == set(declared)
