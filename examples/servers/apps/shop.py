# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A shop in Django: a catalogue that is loaded at the start, of which /N shows a category of 100 items."""

import os
import pickle
import random
from array import array
from itertools import accumulate

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.template import engines
from django.urls import path

PAGE = """<html><h1>Category {{ number }}</h1><table>{% for item in items %}<tr><td>{{ item.name|title }}
<td>{{ item.price|floatformat:2 }}<td>{{ item.tags|join:", " }}<td>{{ item.stock.here }}</tr>{% endfor %}</table></html>"""

settings.configure(
    SECRET_KEY="of an example", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, USE_TZ=True, LOGGING_CONFIG=None,
    INSTALLED_APPS=[f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages")],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"])
application = get_wsgi_application()

rng = random.Random(1988)
CATALOGUE = [[{
    "id": (category, number),
    "name": f"item {number} of category {category}",
    "price": rng.random() * 100,
    "tags": [f"tag{rng.randrange(1000)}" for _ in range(4)],
    "stock": {"here": rng.randrange(100), "there": rng.randrange(100)},
} for number in range(100)] for category in range(1000)]
IS_PACKED = os.environ.get("SHOP_ITEMS") == "packed"


def packed(items):
    """A category in three objects: what is in stock, where each item ends, and all of them."""
    parts = [pickle.dumps(item) for item in items]
    return bytes(item["stock"]["here"] for item in items), array("I", accumulate(map(len, parts), initial=0)), b"".join(parts)


if IS_PACKED:
    CATALOGUE = [packed(items) for items in CATALOGUE]
TEMPLATE = engines["django"].from_string(PAGE)


def category(_request, number):
    if IS_PACKED:
        # A request uses copies of the items, whose reference counts are its own.
        stock, ends, text = CATALOGUE[number]
        items = [pickle.loads(text[ends[n]:ends[n + 1]]) for n in range(len(stock)) if stock[n] >= 80]
    else:
        items = [item for item in CATALOGUE[number] if item["stock"]["here"] >= 80]
    return HttpResponse(TEMPLATE.render({"number": number, "items": items}))


urlpatterns = [path("<int:number>", category)]
