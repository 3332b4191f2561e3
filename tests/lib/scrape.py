# SPDX-License-Identifier: Apache-2.0 OR MIT
"""scrape.py URL [ACCEPT]: what is served there."""

import sys
import urllib.request

request = urllib.request.Request(sys.argv[1], headers={"Accept": sys.argv[2] if sys.argv[2:] else "*/*"})
print(urllib.request.urlopen(request, timeout=10).read().decode(), end="")
