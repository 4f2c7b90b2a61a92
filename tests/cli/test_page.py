"""The page of `rtmw dashboard` in a browser: it moves, it filters, it turns red, and it asks nobody else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from rtmw.cli.page import Site
from rtmw.clock import CLOCK
from rtmw.net.http_server import HttpServer
from rtmw.observe.services import COUNTERS_TOPIC, TransferCounters, TransferQueue, pack_activity
from rtmw.observe.views import NODE_TOPIC
from rtmw.publisher import OwnPublisher
from tests.child import Spawn
from tests.cli.test_node_doctor import STATUS

pytest.importorskip("playwright", reason="playwright is not installed: no page is looked at")
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium")
PUMP = """
    import sys, time, rtmw
    with rtmw.Publisher("pump/speed", dict, domain={}) as publisher:
        print("ready")
        while True:
            publisher.publish({{"rpm": 12.5, "text": "<b>bold</b>"}})
            time.sleep(0.005)
"""


@dataclass
class Seen:
    """What a page has complained of, and whom it has asked."""

    errors: list[str] = field(default_factory=list[str])
    asked: set[str] = field(default_factory=set[str])


@pytest.fixture(scope="module")
def chromium() -> Generator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(params=[360, 1440])
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def page(chromium: Any, seen: Seen, width: int, domain_id: int) -> Generator[Page]:
    site = Site(domain_id)
    server = HttpServer("127.0.0.1", 0, site.answer, "the dashboard")
    context = chromium.new_context(viewport={"width": width, "height": 900})
    made = context.new_page()
    made.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
    made.on("pageerror", lambda error: seen.errors.append(str(error)))
    made.on("request", lambda request: seen.asked.add(request.url.split("/")[2]))
    made.goto(f"http://127.0.0.1:{server.port}/?token={site.token}")
    yield made
    context.close()
    server.close()
    assert seen.errors == []
    assert seen.asked == {f"127.0.0.1:{server.port}"}


def row(page: Page, table: str, text: str) -> Any:
    return page.locator(f"#{table} tbody tr", has_text=text).first


def test_a_program_at_work_is_seen_and_one_that_was_killed_turns_red(
    page: Page, spawn: Spawn, domain: rtmw.Domain, domain_id: int, width: int
) -> None:
    pump = spawn(PUMP.format(domain_id))
    pump.line()
    with (
        rtmw.Subscriber("pump/speed", dict, domain=domain),
        rtmw.Publisher("<img src=x onerror=alert(1)>", domain=domain),
    ):
        speed, rate = row(page, "topics", "pump/speed"), row(page, "topics", "pump/speed").locator("td").nth(1)
        speed.wait_for()
        page.wait_for_function("cell => Number(cell.textContent) > 0", arg=rate.element_handle())
        before = page.locator("#now").text_content()
        page.wait_for_function("before => document.getElementById('now').textContent !== before", arg=before)
        page.wait_for_function("() => document.querySelector('#topics polyline').getAttribute('points').includes(' ')")
        assert page.locator("#topics img").count() == 0

        speed.get_by_role("button").click()
        page.locator("tr.open pre", has_text='"text": "<b>bold</b>"').wait_for()
        page.keyboard.press("Enter")  # the row has the focus yet
        page.locator("tr.open").wait_for(state="detached")

        page.locator("#filter").fill("onerror")
        row(page, "topics", "onerror").wait_for()
        speed.wait_for(state="detached")
        page.locator("#filter").fill("")
        speed.wait_for()

        pump.kill()
        page.locator("#problems li", has_text="its publishers are gone").wait_for()
        page.locator("#topics tr.bad", has_text="pump/speed").wait_for()
        page.locator("#programs tr.bad", has_text="gone since").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_domain_that_is_not_there_is_said_and_the_graph_comes_when_it_is_asked_for(
    page: Page, domain_id: int
) -> None:
    page.locator("#now.bad", has_text="does not exist").wait_for()
    with rtmw.Domain(domain_id) as made, rtmw.Publisher("late", domain=made):
        row(page, "topics", "late").wait_for()
        page.locator("#graph summary").click()
        page.wait_for_function("() => document.getElementById('picture').naturalWidth > 0")


def test_what_waits_for_inboxes_is_a_row_each_and_names_are_visible_text(page: Page, domain: rtmw.Domain) -> None:
    counters = TransferCounters(5, 0, 0, 0, 5, 0, 0, 0)
    queues = [TransferQueue("ingest", "", 3, CLOCK.wall_ns() - 65 * 10**9), TransferQueue("store", "far", 2, 1)]
    with (
        OwnPublisher(COUNTERS_TOPIC, domain=domain, history=1) as core,
        rtmw.Publisher("rtl/\u202eabc", str, domain=domain) as publisher,
    ):
        core.publish(pack_activity(counters, queues, ""))
        publisher.publish("\u202eexe")
        cells = row(page, "transfers", "ingest").locator("td")
        cells.first.wait_for()
        assert cells.nth(1).text_content() == "3"
        assert str(cells.nth(2).text_content()).endswith(" s")
        row(page, "transfers", "store@far").wait_for()
        name = row(page, "topics", "rtl/\\u202eabc")
        name.get_by_role("button").click()
        page.locator("tr.open pre", has_text="\\u202eexe").wait_for()


def first_cells(page: Page, table: str) -> list[str]:
    return page.locator(f"#{table} tbody tr td:first-child").all_text_contents()


def test_a_table_is_sorted_by_a_click_on_a_head_and_with_the_keyboard_alone(page: Page, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("a", domain=domain),
        rtmw.Publisher("b", domain=domain),
        rtmw.Publisher("c", domain=domain),
        rtmw.Subscriber("b", domain=domain),
    ):
        row(page, "topics", "c").wait_for()
        assert first_cells(page, "topics") == ["a", "b", "c"]
        page.locator("#topics thead button", has_text="topic").click()
        assert first_cells(page, "topics") == ["c", "b", "a"]
        assert page.locator("#topics th").first.get_attribute("aria-sort") == "descending"

        page.locator("#filter").focus()
        page.keyboard.press("Tab")  # to the first head
        page.keyboard.press("Enter")
        assert first_cells(page, "topics") == ["a", "b", "c"]
        page.locator("#topics thead button", has_text="drops").focus()
        for _ in range(3):  # past the last head, to the third row
            page.keyboard.press("Tab")
        page.keyboard.press("Space")
        page.locator("tr.open", has_text="publishes").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "c"
        page.keyboard.press("Space")
        page.locator("tr.open").wait_for(state="detached")


def test_a_row_keeps_five_minutes_of_rates_as_a_line(page: Page, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", domain=domain):
        row(page, "topics", "t").wait_for()
        ages = page.evaluate(
            """() => {
                const begin = last.time + 1000;
                for (let at = 0; at <= 400; at += 10) {
                    const row = ["t", at, ...last.top.rows[0].slice(2)];
                    take({ ...last, time: begin + at, top: { ...last.top, rows: [row] } });
                }
                show();
                return rates.get("t").map(([at]) => last.time - at);
            }"""
        )
        assert (max(ages), min(ages), len(ages)) == (300, 0, 31)
        points = page.evaluate(
            "() => sparks.get('t')[1].getAttribute('points').split(' ').map((p) => p.split(',').map(Number))"
        )
    assert points[0] == [0, 20]
    assert points[-1] == [300, 20]
    assert [x for x, _ in points[1:-1]] == [*range(0, 301, 10)]
    heights = [y for _, y in points[1:-1]]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == 4


def test_nothing_moves_for_who_wants_no_motion(page: Page) -> None:
    moving = "() => getComputedStyle(document.querySelector('#problems li')).transitionDuration"
    page.locator("#now.bad").wait_for()
    page.evaluate("() => document.getElementById('problems').append(document.createElement('li'))")
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) == "0.3s"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == "0s"
    assert page.evaluate("() => document.getAnimations().length") == 0


def test_a_node_is_a_program_and_its_links_have_the_last_day_of_their_certificates(
    page: Page, domain: rtmw.Domain
) -> None:
    link = {
        "peer": "rtmw://plant/press",
        "host": "press",
        "address": "x",
        "up": True,
        "cipher": "TLS",
        "user": None,
        "pid": 7,
        "domain": 3,
    }
    link |= {"expires": 1_800_000_000.5, "round_trip_ns": 2_500_000, "routes_out": 1, "routes_in": 2}
    down = link | {"peer": "cellar", "up": False, "down_s": 3.0, "why_down": "<b>it ended</b>", "expires": None}
    told = STATUS | {"pid": os.getpid(), "told_ns": CLOCK.monotonic_ns(), "host": "h", "domain": domain.id}
    told |= {"links": {"peers": [link, down], "failing": {}, "refused": {}, "denials": []}}
    with OwnPublisher(NODE_TOPIC, domain=domain, history=1) as node:
        node.publish(json.dumps(told).encode())
        assert "2027-01-15" in (row(page, "links", "rtmw://plant/press").text_content() or "")
        assert "cut for 3.00 s: <b>it ended</b>" in (page.locator("#links tr.bad").text_content() or "")
        row(page, "programs", "rtmw node").wait_for()


def test_a_filter_that_fits_nothing_says_so_of_what_is_wrong_too(page: Page, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain, reliability=Reliability.RELIABLE):
        page.locator("#problems li", has_text="RELIABLE is wanted").wait_for()
        page.locator("#filter").fill("of no topic")
        page.locator("#problems li", has_text="Nothing that the filter lets through").wait_for()
        assert page.locator("#n-problems").text_content() == "0 of 1"
