# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A shop in Django: a catalogue that is loaded at the start, of which /N shows a category of 100 items."""

import os
import pickle
import random

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
if IS_PACKED:
    # One object a category: a request uses copies of its items, whose reference counts are its own.
    CATALOGUE = [pickle.dumps(items) for items in CATALOGUE]
TEMPLATE = engines["django"].from_string(PAGE)


def category(_request, number):
    items = pickle.loads(CATALOGUE[number]) if IS_PACKED else CATALOGUE[number]
    items = [item for item in items if item["stock"]["here"] >= 80]
    return HttpResponse(TEMPLATE.render({"number": number, "items": items}))


urlpatterns = [path("<int:number>", category)]
