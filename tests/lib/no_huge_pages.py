# SPDX-License-Identifier: Apache-2.0 OR MIT
"""no_huge_pages.py SCRIPT [ARGUMENT…]: runs a Python script that may have no huge pages, as Redis forbids them
to itself."""

import ctypes
import runpy
import sys

PR_SET_THP_DISABLE = 41
if ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
    sys.exit("prctl refuses")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
