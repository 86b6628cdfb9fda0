"""The technician's page in a real browser, against an agent that says what the test wants."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Callable, List, Optional

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser import page_documents as documents
from tests.browser.page_server import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync"]
PATIENCE_S = 12.0
expect.set_options(timeout=PATIENCE_S * 1000)
PHONE = {"width": 390, "height": 844}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="module")
async def agent() -> AsyncIterator[PageServer]:
    server = PageServer()
    await server.start()
    yield server
    await server.stop()


@asynccontextmanager
async def looking(
    browser: Browser, agent: PageServer, locale: str = "en-GB", complaints: str = "", wait: bool = True, **options: Any
) -> AsyncIterator[Page]:
    """The page in a fresh browser profile; whatever it complains about, beyond what is expected, fails the test."""
    options.setdefault("viewport", {"width": 1280, "height": 900})
    context = await browser.new_context(locale=locale, timezone_id="Asia/Kolkata", **options)
    context.set_default_timeout(PATIENCE_S * 1000)
    page = await context.new_page()
    heard: List[str] = []
    page.on("console", lambda message: heard.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: heard.append(str(error)))
    await page.goto(agent.address)
    if wait:
        await expect(page.locator("#content")).to_be_visible()
    yield page
    await context.close()
    assert [text for text in heard if not (complaints and re.search(complaints, text))] == []


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.05)


async def becomes(page: Page, expression: str) -> None:
    """Until it is true in the page; the page's policy forbids Playwright's own way."""
    deadline = time.monotonic() + PATIENCE_S
    while not await page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        await asyncio.sleep(0.05)


async def polls(agent: PageServer, count: int = 2) -> None:
    """Until the page has asked for the status that often from now."""
    begun = agent.asked["/api/status"]
    await until(lambda: agent.asked["/api/status"] >= begun + count)


async def hide(page: Page, state: str) -> None:
    """As a tab that goes to the background, which a headless browser never does."""
    await page.evaluate(
        "state => { Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        state,
    )


def verdict(page: Page) -> Any:
    return expect(page.locator("#verdict"))


# -- what is shown ------------------------------------------------------------------------------------------------------


async def test_a_healthy_agent_is_shown_with_all_its_parts(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        await verdict(page).to_have_text("Everything runs")
        await expect(page.locator("h1")).to_have_text("Loading yard")
        await expect(page.locator("#identity")).to_contain_text("id 3f9c2a7be014 · version 0.1.0 · up 2 h 1 min")
        assert await page.title() == "Everything runs · Loading yard"
        await expect(page.locator("#faults li")).to_have_count(0)
        dock = page.locator(".camera", has_text="Dock gate")
        await expect(dock.locator("dd")).to_have_text(["10.0", "9.8", "0.1 s"])
        await expect(dock.locator(".from")).to_have_text("face · rtsp://10.0.0.5/stream1")
        await expect(page.locator("#models li", has_text="plates")).to_contain_text("version 3 · TensorRT")
        await expect(page.locator("#parts li", has_text="Store")).to_have_text(
            "StoreOK52.3 MB · 45,210 rows written · last commit 2.4 ms"
        )
        await expect(page.locator("#device")).to_contain_text("3.9 GB free of 58.0 GB")
        await expect(page.locator("#device")).to_contain_text("51.6 °C")


async def test_a_slow_disk_shows_in_what_waits_and_what_was_dropped(browser: Browser, agent: PageServer) -> None:
    agent.status["store"].update(queue={"result": 1200, "log": 34}, dropped_results=5, dropped_logs=2)
    async with looking(browser, agent) as page:
        await expect(page.locator("#parts li", has_text="Store")).to_contain_text("1,234 waiting · 7 dropped")


async def test_pictures_appear_with_their_boxes_asked_for(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        await becomes(page, "document.querySelector('.camera img').naturalWidth === 600")
        assert await page.locator(".camera img").first.get_attribute("alt") == "Live picture of Dock gate"


async def test_results_show_local_time_source_labels_and_latency(browser: Browser, agent: PageServer) -> None:
    two = [documents.seen("person", 0.91), documents.seen("person", 0.845), documents.seen("forklift", 0.77)]
    when = "2026-03-01T20:00:00.250Z"
    agent.results = [
        documents.result(2, two, captured_at=when),
        documents.result(1, [], captured_at=when, source="http/press", latency_us=4321, clock_synced=False),
    ]
    async with looking(browser, agent) as page:
        rows = page.locator("#results tbody tr")
        await expect(rows).to_have_count(2)
        cells = rows.first.locator("td")
        await expect(cells.nth(0)).to_have_text(re.compile(r"Mar 2.* 01:30:00\.2$"))  # half past one at night in Kolkata
        await expect(cells.nth(1)).to_have_text("camera/dock face")
        await expect(cells.nth(2)).to_have_text(re.compile(r"person ×2 0\.91 0\.8[45]forklift 0\.77"))
        await expect(cells.nth(3)).to_have_text("43 ms")
        await expect(rows.nth(1)).to_contain_text("nothing")
        await expect(rows.nth(1)).to_contain_text("4.3 ms")
        await expect(rows.nth(1).locator("abbr")).to_have_attribute("title", "The clock was not set when this was stored.")


async def test_new_results_come_by_themselves(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        await expect(page.locator("#results tbody tr")).to_have_count(20)
        agent.results = [documents.result(101, [documents.seen("zebra", 0.5)]), *agent.results]
        await expect(page.locator("#results tbody tr").first).to_contain_text("zebra 0.50")
        await expect(page.locator("#results tbody tr")).to_have_count(20)


async def test_events_are_told_in_words_of_their_code_or_kind(browser: Browser, agent: PageServer) -> None:
    agent.events.insert(0, documents.event(9, "new.kind", "belt", 1, text="told as it came"))
    async with looking(browser, agent) as page:
        rows = page.locator("#events li")
        await expect(rows.nth(0)).to_contain_text("belt told as it came")
        await expect(rows.nth(1)).to_contain_text("yard The camera does not answer at rtsp://10.0.0.6/stream1.")
        await expect(rows.nth(2)).to_contain_text("ended by signal 11")
        await expect(rows.nth(4)).to_contain_text("face/1 The model is loaded.")


async def test_a_fault_says_what_why_since_when_and_what_to_do(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.broken()
    async with looking(browser, agent) as page:
        await verdict(page).to_have_text("3 parts do not work, 1 part is impaired")
        camera = page.locator("#faults li", has_text="Yard, north")
        await expect(camera).to_contain_text("Camera Yard, north")
        await expect(camera).to_contain_text("The camera does not answer at rtsp://10.0.0.6/stream1.")
        await expect(camera).to_contain_text("What to do: Check its power, its cable and its address.")
        await expect(camera).to_contain_text("camera.unreachable")
        await expect(camera).to_contain_text(re.compile(r"Failed since \d\d:\d\d:\d\d \(3 min\)"))
        await expect(page.locator("#faults li", has_text="Engine host gpu")).to_contain_text("ended by signal 11")
        await expect(page.locator("#models li", has_text="plates")).to_contain_text("INVALID_PROTOBUF")
        await expect(page.locator("#faults li").last).to_contain_text("Connecting to the MQTT broker.")  # the worst come first


async def test_a_fault_that_ends_leaves_the_headline(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.broken()
    async with looking(browser, agent) as page:
        await expect(page.locator("#faults li")).to_have_count(4)
        agent.status = documents.well()
        await verdict(page).to_have_text("Everything runs")
        await expect(page.locator("#faults li")).to_have_count(0)


async def test_a_part_that_is_off_is_grey_and_no_fault(browser: Browser, agent: PageServer) -> None:
    agent.status["cameras"][0].update(documents.part("off", "camera.ended"))
    async with looking(browser, agent) as page:
        await verdict(page).to_have_text("Everything runs")
        mqtt = page.locator("#parts li", has_text="MQTT")
        await expect(mqtt.locator(".badge")).to_have_text("Off")
        await expect(mqtt.locator(".mark")).to_have_class("mark off")
        await expect(page.locator(".camera").first).to_contain_text("The video has come to its end.")


@pytest.mark.parametrize(
    ("code", "said"),
    [("agent.draining", "takes nothing new"), ("config.safe_mode", "runs with the last good one")],
)
async def test_the_agents_own_state_is_in_the_headline(browser: Browser, agent: PageServer, code: str, said: str) -> None:
    agent.status["agent"].update(documents.part("degraded", code))
    async with looking(browser, agent) as page:
        await verdict(page).to_have_text("1 part is impaired")
        await expect(page.locator("#faults")).to_contain_text(said)


async def test_a_part_that_the_page_has_not_heard_of_counts(browser: Browser, agent: PageServer) -> None:
    agent.status["hoist"] = {**documents.part("failed", "hoist.stuck"), "reason": "The hoist is stuck.", "cure": "Free it."}
    async with looking(browser, agent) as page:
        await verdict(page).to_have_text("1 part does not work")
        await expect(page.locator("#faults")).to_contain_text("The hoist is stuck.")
        await expect(page.locator("#faults")).to_contain_text("Free it.")


async def test_values_that_the_board_does_not_give_are_unknown(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.broken()
    async with looking(browser, agent) as page:
        for name in ("Board", "Temperature", "CPU", "GPU", "Memory", "Disk", "Power", "Uptime"):
            row = page.locator("#device > div", has=page.get_by_text(name, exact=True))
            await expect(row.locator("dd")).to_have_text("unknown")
        await expect(page.locator("#device meter")).to_have_count(1)  # the agent's own


async def test_an_empty_agent_says_so(browser: Browser, agent: PageServer) -> None:
    agent.status.update(cameras=[], models=[], engine_hosts=[])
    agent.results, agent.events = [], []
    async with looking(browser, agent) as page:
        await expect(page.locator("#cameras")).to_have_text("No cameras are configured.")
        await expect(page.locator("#models")).to_have_text("The model repository is empty.")
        await expect(page.locator("#results")).to_have_text("Nothing is stored yet.")
        await expect(page.locator("#events")).to_have_text("Nothing has happened yet.")


async def test_a_version_that_failed_shows_beside_the_one_that_serves(browser: Browser, agent: PageServer) -> None:
    failed = documents.part("failed", "model.load_failed", text="no such operator: Foo")
    agent.status["models"][0]["versions"].insert(0, {"version": "2", "engine": "", "verified": False, **failed})
    async with looking(browser, agent) as page:
        face = page.locator("#models > li").first
        await expect(face.locator(".about > .small")).to_have_text("version 1 · ONNX Runtime")
        await expect(face.locator(".other")).to_contain_text("version 2")
        await expect(face.locator(".other")).to_contain_text("no such operator: Foo")


async def test_a_plan_that_is_built_shows_how_far_it_is_and_what_serves_meanwhile(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.plans()
    async with looking(browser, agent) as page:
        face = page.locator("#models > li").first
        await expect(face.locator(".about > .small").first).to_have_text("version 1 · ONNX Runtime")
        await expect(face).to_contain_text("ONNX Runtime serves the model meanwhile")
        await expect(face).to_contain_text("What to do: Wait")
        await expect(face).to_contain_text("TensorRT plan is being built · 43 % · about 2 min left")
        assert await face.locator("progress").evaluate("one => one.value / one.max") == pytest.approx(0.432)
        await expect(page.locator("#faults li", has_text="face")).to_contain_text("What to do: Wait")
        agent.status["models"][0]["versions"][0]["build"] = documents.build(
            "queued", percent=0.0, eta_s=28, tries=2, reason="no memory"
        )
        await expect(face).to_contain_text("TensorRT plan waits · about 28 s left · try 2 · no memory")
        agent.status["models"][0] = documents.model("face", "tensorrt")
        agent.status["models"][0]["versions"][0].update(verified=True, build=documents.build("done"))
        await expect(face.locator(".about > .small").first).to_have_text("version 1 · TensorRT · checked")
        await expect(face.locator("progress")).to_have_count(0)


async def test_a_version_says_whether_its_plan_was_checked_and_how_the_newer_one_does(
    browser: Browser, agent: PageServer
) -> None:
    agent.status = documents.plans()
    async with looking(browser, agent) as page:
        plates = page.locator("#models > li").nth(1)
        await expect(plates.locator(".about > .small")).to_have_text("version 1 · TensorRT · fp16 · checked · 2.1 ms")
        newer = plates.locator(".other")
        await expect(newer).to_contain_text("version 2 · TensorRT · checked")
        await expect(newer).to_contain_text("43 of 100 requests compared · 97 % agree · 95 of 100 within 4.1 ms, serving 14 ms")
        agent.status["models"][1]["versions"][0]["shadow"] = documents.shadow(
            errors=2, paused="too hot", agreement=None, p95_ms=None
        )
        await expect(newer).to_contain_text("43 of 100 requests compared · 2 failed · pauses: too hot")
        agent.status["models"][1]["versions"][1].update(verified=False, plan=None)
        await expect(plates.locator(".about > .small")).to_have_text("version 1 · TensorRT · not checked")


async def test_a_model_without_a_plan_says_why_and_what_to_do(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.plans()
    async with looking(browser, agent) as page:
        gate = page.locator("#models > li").nth(2)
        await expect(gate).to_contain_text("operator GridSample is not known")
        await expect(gate).to_contain_text("edge-agent models build NAME")
        await expect(gate.locator("progress")).to_have_count(0)


async def test_a_version_that_serves_impaired_is_shown_before_the_one_that_is_compared(
    browser: Browser, agent: PageServer
) -> None:
    agent.status = documents.plans()
    plates = agent.status["models"][1]
    plates["versions"][1].update(documents.part("degraded", "engine.building"), engine="onnxruntime")
    async with looking(browser, agent) as page:
        shown = page.locator("#models > li").nth(1).locator(".about > .small").first
        await expect(shown).to_contain_text("version 1 · ONNX Runtime")


async def test_a_precision_that_fell_is_told_though_all_is_well(browser: Browser, agent: PageServer) -> None:
    fell = documents.part("ok", "engine.precision_fell", precision="fp16", wanted="int8", text="no calibration")
    agent.status["models"] = [documents.model("face", "tensorrt", fell)]
    async with looking(browser, agent) as page:
        await verdict(page).to_have_text("Everything runs")
        await expect(page.locator("#models")).to_contain_text("built as fp16, as int8 could not be had: no calibration")


async def test_plans_are_told_in_chinese_too(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.without_english(documents.plans())
    async with looking(browser, agent, locale="zh-CN") as page:
        await expect(page.locator("#models")).to_contain_text("正在构建 TensorRT 计划 · 43 % · 约剩 2 分钟")
        await expect(page.locator("#models")).to_contain_text("已比较 43 / 100 个请求")
        await expect(page.locator("#models")).to_contain_text("已校验")


# -- what comes from outside --------------------------------------------------------------------------------------------


async def test_hostile_names_stay_text(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.hostile()
    agent.results = [documents.result(1, [documents.seen(documents.HOSTILE[:40], 0.9)], source=documents.HOSTILE)]
    agent.events = [documents.event(1, "x.y", documents.HOSTILE, 3, text=documents.HOSTILE)]
    async with looking(browser, agent) as page:
        await expect(page.locator("h1")).to_have_text(documents.HOSTILE)
        await expect(page.locator("#results")).to_contain_text(documents.HOSTILE[:40])
        await expect(page.locator("#events")).to_contain_text(documents.HOSTILE)
        await expect(page.locator("#faults")).to_contain_text(documents.HOSTILE)
        await polls(agent)
        assert await page.evaluate("window.harmed") is None
        assert await page.locator("img[src='x'], main script, h1 *").count() == 0


@pytest.mark.parametrize("document", ["well", "broken", "plans", "hostile"])
@pytest.mark.parametrize("width", [320, 390, 820])
async def test_nothing_is_wider_than_the_screen(browser: Browser, agent: PageServer, document: str, width: int) -> None:
    agent.status = getattr(documents, document)()
    if document == "hostile":
        agent.results = [documents.result(1, [documents.seen("W" * 300, 0.9)] * 3, source="W" * 300)]
        agent.events = [documents.event(1, "x.y", "W" * 300, 3, text="W" * 900)]
    async with looking(browser, agent, viewport={"width": width, "height": 844}) as page:
        await expect(page.locator("#results tbody tr").first).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_rows_written_by_hand_do_not_break_the_page(browser: Browser, agent: PageServer) -> None:
    agent.results = [
        {**documents.result(2, []), "objects": "no list", "latency_us": None, "captured_at": "yesterday"},
        documents.result(1, [{"label": None, "score": None}, None]),
    ]
    agent.events = [{**documents.event(1, "", "", 1), "args": None, "at": ""}]
    async with looking(browser, agent) as page:
        await expect(page.locator("#results tbody tr").first).to_contain_text("unknown")
        await expect(page.locator("#results tbody tr")).to_have_count(2)


async def test_a_document_that_cannot_be_shown_is_told_and_does_not_end_the_page(browser: Browser, agent: PageServer) -> None:
    good = agent.status
    async with looking(browser, agent) as page:
        agent.status = {**good, "cameras": None}
        await expect(page.locator("#banner-text")).to_contain_text("This page cannot show what the agent sent")
        agent.status = good
        await expect(page.locator("#banner")).to_be_hidden()


# -- languages ----------------------------------------------------------------------------------------------------------


async def test_chinese_browsers_see_chinese(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.without_english(documents.broken())
    async with looking(browser, agent, locale="zh-CN") as page:
        await verdict(page).to_have_text("3 个部分发生故障，1 个部分受影响")
        assert await page.locator("html").get_attribute("lang") == "zh-CN"
        camera = page.locator("#faults li", has_text="Yard, north")
        await expect(camera).to_contain_text("摄像机 rtsp://10.0.0.6/stream1 没有响应。")
        await expect(camera).to_contain_text("请检查电源、网线和地址。")
        await expect(page.locator("#events")).to_contain_text("摄像机画面正常。")
        await expect(page.locator("#h-results")).to_have_text("最新结果")


async def test_every_text_changes_with_the_language_and_the_choice_is_kept(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent, locale="fr-FR") as page:
        await verdict(page).to_have_text("Everything runs")
        await page.get_by_role("button", name="中文").click()
        await verdict(page).to_have_text("一切正常")
        for words in ("#h-cameras", "#h-models", "#h-parts", "#h-device", "#h-events", "#foot", ".camera dl", "#identity"):
            await expect(page.locator(words).first).to_have_text(re.compile("[\u4e00-\u9fff]"))
        await page.reload()
        await verdict(page).to_have_text("一切正常")
        await page.get_by_role("button", name="English").click()
        await verdict(page).to_have_text("Everything runs")


# -- the agent does not answer ------------------------------------------------------------------------------------------


async def test_a_silent_agent_is_told_with_since_when_and_its_return_is_seen(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent, complaints="Failed to load resource: net::") as page:
        await verdict(page).to_have_text("Everything runs")
        agent.silent = True
        await expect(page.locator("#banner-text")).to_have_text(re.compile(r"The agent does not answer since \d\d:\d\d:\d\d\."))
        await verdict(page).to_have_text("State unknown")
        await expect(page.locator("#banner-age")).to_contain_text(re.compile(r"For \d+ s\."))
        await expect(page.locator("#models")).to_contain_text("face")  # what was known stays, greyed
        await expect(page.locator("body")).to_have_class("stale")
        agent.silent = False
        await verdict(page).to_have_text("Everything runs")
        await expect(page.locator("#banner")).to_be_hidden()


async def test_an_agent_that_accepts_and_never_answers_counts_as_silent(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        agent.stuck = True
        await expect(page.locator("#banner-text")).to_contain_text("does not answer")


async def test_an_agent_that_never_answered_shows_nothing_but_that(browser: Browser, agent: PageServer) -> None:
    agent.silent = True
    async with looking(browser, agent, complaints="Failed to load resource: net::", wait=False) as page:
        await expect(page.locator("#banner-text")).to_have_text("The agent does not answer.")
        await expect(page.locator("#headline")).to_be_hidden()
        await expect(page.locator("#content")).to_be_hidden()


async def test_a_refusal_shows_the_agents_own_text(browser: Browser, agent: PageServer) -> None:
    agent.refusal = 403
    async with looking(browser, agent, complaints="Failed to load resource.* 403", wait=False) as page:
        await expect(page.locator("#banner-text")).to_have_text("The agent refuses to show its state (403): not for you")


async def test_lists_that_cannot_be_read_say_why_and_the_rest_stays(browser: Browser, agent: PageServer) -> None:
    agent.refused_paths = {"/api/results": 503}
    async with looking(browser, agent, complaints="Failed to load resource.* 503") as page:
        await expect(page.locator("#results")).to_have_text("Cannot be read now: not for you")
        await verdict(page).to_have_text("Everything runs")
        agent.refused_paths = {}
        await expect(page.locator("#results tbody tr")).to_have_count(20)


async def test_another_version_of_the_agent_brings_its_own_page(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        async with page.expect_event("load"):
            agent.status["agent"]["version"] = "0.2.0"
        await expect(page.locator("#identity")).to_contain_text("version 0.2.0")


# -- access -------------------------------------------------------------------------------------------------------------


async def test_a_token_is_asked_for_kept_for_the_tab_and_sent_with_everything(browser: Browser, agent: PageServer) -> None:
    agent.token = "ea_right"
    async with looking(browser, agent, complaints="Failed to load resource.* 401", wait=False) as page:
        await expect(page.get_by_label("Token")).to_be_focused()
        await expect(page.locator("#content")).to_be_hidden()
        await page.get_by_label("Token").fill("  ea_right ")
        await page.keyboard.press("Enter")
        await verdict(page).to_have_text("Everything runs")
        await becomes(page, "document.querySelector('.camera img').naturalWidth > 0")
        await expect(page.locator("#results tbody tr")).to_have_count(20)
        assert agent.strangers == 1  # the question before the token
        await page.reload()
        await verdict(page).to_have_text("Everything runs")
        assert await page.evaluate("[sessionStorage.length, document.cookie, JSON.stringify(localStorage)]") == [1, "", "{}"]
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.locator("#sign-in")).to_be_visible()
        await expect(page.locator("#content")).to_be_hidden()
        assert await page.evaluate("sessionStorage.length") == 0


@pytest.mark.parametrize("wrong", ["ea_wrong", "令牌 with blanks"])
async def test_a_wrong_token_is_refused_in_words(browser: Browser, agent: PageServer, wrong: str) -> None:
    agent.token = "ea_right"
    async with looking(browser, agent, complaints="Failed to load resource.* 401", wait=False) as page:
        await page.get_by_label("Token").fill(wrong)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#sign-in-why")).to_have_text("This token is not accepted.")
        await expect(page.locator("#sign-in")).to_be_visible()


async def test_a_token_that_is_revoked_brings_the_form_back(browser: Browser, agent: PageServer) -> None:
    agent.token = "ea_right"
    async with looking(browser, agent, complaints="Failed to load resource.* 401", wait=False) as page:
        await page.get_by_label("Token").fill("ea_right")
        await page.keyboard.press("Enter")
        await verdict(page).to_have_text("Everything runs")
        agent.token = "ea_other"
        await expect(page.locator("#sign-in-why")).to_have_text("This token is not accepted.")
        await expect(page.locator("#content")).to_be_hidden()
        asked = sum(agent.asked.values())
        await asyncio.sleep(2.5)  # longer than a turn: nobody is asked until there is another token
        assert sum(agent.asked.values()) <= asked + 3  # what was under way


# -- how often it asks --------------------------------------------------------------------------------------------------


def snapshots(agent: PageServer, camera: Optional[str] = None) -> int:
    return sum(count for path, count in agent.asked.items() if "snapshot" in path and (camera is None or camera in path))


async def test_pictures_come_at_most_twice_a_second(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent):
        await until(lambda: snapshots(agent, "dock") >= 1)
        first, began = snapshots(agent, "dock"), time.monotonic()
        await until(lambda: snapshots(agent, "dock") >= first + 4)
        taken = time.monotonic() - began
        assert snapshots(agent, "dock") - first <= taken * 2 + 1


async def test_slow_pictures_never_overlap(browser: Browser, agent: PageServer) -> None:
    agent.picture_s = 0.9
    agent.status["cameras"] = agent.status["cameras"][:1]
    async with looking(browser, agent):
        await until(lambda: snapshots(agent, "dock") >= 3)
        assert agent.overlaps == 0


async def test_a_hidden_page_asks_nothing_and_goes_on_when_it_is_seen_again(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        await until(lambda: snapshots(agent) > 2)
        await hide(page, "hidden")
        asked = sum(agent.asked.values())
        await asyncio.sleep(2.5)
        assert sum(agent.asked.values()) <= asked + 1  # one may have been under way
        await hide(page, "visible")
        await polls(agent, 2)
        await until(lambda: sum(agent.asked.values()) > asked + 6)
        await verdict(page).to_have_text("Everything runs")


async def test_a_camera_that_fails_keeps_its_last_picture_and_is_not_asked(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        await becomes(page, "document.querySelector('[data-live=yard] img').naturalWidth > 0")
        agent.status = documents.broken()
        await expect(page.locator("[data-live=yard] .note")).to_have_text(re.compile(r"Last picture \d\d:\d\d:\d\d"))
        asked = snapshots(agent, "yard")
        await polls(agent, 2)
        assert snapshots(agent, "yard") == asked
        await expect(page.locator("[data-live=yard] img")).to_be_visible()


async def test_cameras_may_come_and_go(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        await expect(page.locator(".camera h3")).to_have_text(["Dock gate dock", "Yard, north yard", "belt"])
        gone = agent.status["cameras"].pop(0)
        await expect(page.locator(".camera h3")).to_have_text(["Yard, north yard", "belt"])
        agent.status["cameras"].append(gone)
        await expect(page.locator(".camera h3")).to_have_text(["Yard, north yard", "belt", "Dock gate dock"])
        await becomes(page, "document.querySelector('[data-live=dock] img').naturalWidth > 0")


# -- for people ---------------------------------------------------------------------------------------------------------


async def test_what_a_person_selects_stays_selected_while_values_change(browser: Browser, agent: PageServer) -> None:
    agent.status = documents.broken()
    async with looking(browser, agent) as page:
        await page.evaluate(
            "() => { const text = document.querySelector('#models .reason').firstChild;"
            " getSelection().setBaseAndExtent(text, 4, text, text.length); }"
        )
        agent.status["agent"]["uptime_s"] += 86400
        agent.status["cameras"][0]["fps_in"] = 5.5
        await expect(page.locator("#identity")).to_contain_text("up 1 d 2 h")
        await expect(page.locator(".camera dd").first).to_have_text("5.5")
        assert "INVALID_PROTOBUF" in await page.evaluate("getSelection().toString()")


async def test_a_picture_can_be_enlarged_with_the_keyboard(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent) as page:
        picture = page.get_by_role("button", name="Larger or smaller: Yard, north")
        narrow = (await picture.bounding_box() or {})["width"]
        await picture.focus()
        await page.keyboard.press("Enter")
        await expect(picture).to_have_attribute("aria-pressed", "true")
        assert (await picture.bounding_box() or {})["width"] > 2 * narrow
        await polls(agent)
        await expect(picture).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(picture).to_have_attribute("aria-pressed", "false")


async def test_screen_readers_get_names_and_a_table_on_a_phone_too(browser: Browser, agent: PageServer) -> None:
    async with looking(browser, agent, viewport=PHONE) as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Loading yard")
        for name in ("Cameras", "Models", "Parts", "Device", "Latest results", "Latest events"):
            await expect(page.get_by_role("region", name=name)).to_have_count(1)
        await expect(page.get_by_role("status")).to_have_text("Everything runs")
        await expect(page.get_by_role("table", name="Latest results").get_by_role("row")).to_have_count(11)
        assert await page.locator("button:not([aria-label])").evaluate_all("all => all.filter(one => !one.textContent)") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("document", ["well", "broken", "plans"])
async def test_text_stands_out_from_its_ground(browser: Browser, agent: PageServer, scheme: str, document: str) -> None:
    agent.status = getattr(documents, document)()
    async with looking(browser, agent, color_scheme=scheme) as page:
        await expect(page.locator("#results tbody tr").first).to_be_visible()
        assert await page.evaluate(FAINT) == []


FAINT = """() => {
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim());
    if (!own || !element.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color).slice(0, 3)), light(ground(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(element.className + ': ' + element.textContent.slice(0, 30));
  }
  return faint;
}"""
