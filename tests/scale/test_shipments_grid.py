"""What the Shipments page costs with 500 pipelines and a month of hours: `make scale` prints it."""

import time

from shipper.shipments.app import respond
from tests.samples.shipments import Everything, Page, World, large_index

PIPELINES = 500
#: Days that are shown, and how many days ago they end.
SHOWN = {
    "30 days": (30, 0),
    "the page of history before": (30, 30),
    "7 days": (7, 0),
    "the week before": (7, 7),
}


def test_500_pipelines_and_30_days_of_hours_are_on_one_page(tmp_path):
    now = int(time.time())
    world = World(tmp_path)
    large_index(world.index, now)
    respond(world.index, "shipments", {"q": "nothing"}, Everything())  # reads the templates
    for name, (days, back) in SHOWN.items():
        end = now // 3600 * 3600 + 3600 - back * 86_400
        query = {"range": f"{days}d", "end": str(end)}
        began = time.process_time()
        found = respond(world.index, "shipments", query, Everything())
        took = time.process_time() - began
        page = Page(found.body)
        assert len(page.rows) == PIPELINES
        counts = [words.split()[0] for words, said in page.links if "data-state" in said]
        windows = sum(int(count.replace(",", "")) for count in counts)
        assert abs(windows - PIPELINES * 24 * days) <= 1000
        print(f"{name}: {took * 1000:.0f} ms of CPU, {len(found.body):,} bytes")
