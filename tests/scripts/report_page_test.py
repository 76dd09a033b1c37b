"""`trainer report` in a real browser: what pages show is what the plan and the events say, nothing is loaded, nothing
that is named runs, and all of it is reached by mouse and by keys."""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import interpreters

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    interpreters.go_on_as_system()
    raise

TRAINER = pathlib.Path(os.environ["TRAINER"]).resolve()
QUICKSTART = "configs/quickstart.yaml"
HOSTILE = ("</script><script>window.wasHostile = 1</script><img src=x onerror='window.wasHostile = 2'>\"'&amp; "
           "\u202eevil\u202c {{script}} <!-- " + "x" * 10000)


def run_trainer(*words, code=0):
    done = subprocess.run([TRAINER, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_driver():
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000", "--force-device-scale-factor=1",
                 "--disable-background-networking"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=webdriver.chrome.service.Service("/usr/bin/chromedriver"), options=options)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stack = cls.enterClassContext(contextlib.ExitStack())
        cls.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cls.driver = make_driver()
        stack.callback(cls.driver.quit)
        cls.run_folder = cls.folder / "run"
        run_trainer("run", QUICKSTART, "train.epochs=2", f"output={cls.run_folder}", "--quiet")
        cls.made = {}

    def make(self, name, *words):
        if name not in self.made:
            self.made[name] = self.folder / f"{name}.html"
            run_trainer("report", *map(str, words), "-o", str(self.made[name]))
        return self.made[name]

    def open(self, name, *words):
        path = self.make(name, *words)
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(f"file://{path}")
        deadline = time.monotonic() + 90
        while not self.js("return Boolean(window.trainerReport && window.trainerReport.isReady)"):
            self.assertLess(time.monotonic(), deadline, self.driver.get_log("browser"))
            time.sleep(0.05)
        return path

    def tearDown(self):
        """Whatever was done: no error, and nothing was asked for but the file."""
        self.assertEqual(self.driver.get_log("browser"), [])
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.assertRegex(message["params"]["request"]["url"], r"^(file|data|blob|about|chrome)")

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def frame(self):
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")

    def map(self, index=0):
        self.frame()
        return self.js("return window.trainerReport.maps[arguments[0]]", index)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def canvas(self, index=1):
        canvas = self.driver.find_elements(By.CSS_SELECTOR, ".pictures canvas")[index]
        self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        return canvas

    def bytes_of(self, selector):
        """By the text of each row's first cell: the bytes of its cells."""
        return {name: values for name, values in self.js(
            "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) => [row.cells[0].textContent, "
            "[...row.querySelectorAll('[data-bytes]')].map((cell) => Number(cell.dataset.bytes))])", selector)}

    def plan_of(self, *words, code=0):
        return json.loads(run_trainer("plan", *words, "--json", code=code))

    # What is shown.

    def test_tables_of_a_plan_are_those_of_plan_json_to_the_byte(self):
        self.open("plan", QUICKSTART)
        plan = self.plan_of(QUICKSTART)
        categories = self.bytes_of(".by-category")
        self.assertEqual({name: values[0] for name, values in categories.items() if name != "allocated"},
                         {name: value for name, value in plan["by_category"].items() if value > 0})
        self.assertEqual(categories["allocated"], [plan["peak"]["bytes"]])
        layers = self.bytes_of(".by-layer")
        self.assertEqual({name: values[-1] for name, values in layers.items() if name != "allocated"},
                         {layer["layer"]: layer["bytes"] for layer in plan["by_layer"]})
        steps = list(self.bytes_of(".steps").values())
        keys = ("peak_requested", "peak_allocated", "peak_reserved", "requested", "allocated", "reserved")
        self.assertEqual(steps[:-1], [[step[key] for key in keys] for step in plan["steps"]])
        self.assertEqual(steps[-1], [plan["peak_requested"], plan["peak_allocated"], plan["peak_reserved"]])

    def test_the_map_holds_the_peak_and_its_live_tables_add_up(self):
        self.open("plan", QUICKSTART)
        plan, state = self.plan_of(QUICKSTART), self.map()
        self.assertEqual(state["cursor"], state["peak"])
        self.assertEqual(state["allocated"], plan["peak"]["bytes"])
        self.assertEqual(state["matchBytesAtPeak"], plan["peak"]["bytes"])
        live = self.js("return [...document.querySelectorAll('.live table')].slice(0, 2).map((table) => [...table.querySelectorAll("
                       "'tbody tr')].map((row) => Number(row.querySelector('[data-bytes]').dataset.bytes)))")
        for rows in live:
            self.assertEqual(rows[-1], plan["peak"]["bytes"])
            self.assertEqual(sum(rows[:-1]), plan["peak"]["bytes"])
        top = self.js("return [...document.querySelectorAll('.live table')][2].querySelector('tbody tr').cells[0].textContent")
        self.assertIn(top, [buffer["name"] for buffer in plan["top"] if buffer["bytes"] == plan["top"][0]["bytes"]])

    def test_ops_are_numbered_by_those_that_run(self):
        self.open("plan", QUICKSTART)
        trace = json.loads(run_trainer("export-trace", QUICKSTART, "--perfetto", str(self.folder / "ops.json"), "--json"))
        count = trace["plans"][0]["ops"]
        self.assertEqual(self.map()["ops"], count)
        cells = self.js("return [...document.querySelectorAll('.buffers tbody tr:not(.space)')].map((row) => "
                        "[row.cells[6].textContent, row.cells[7].textContent])")
        numbers = [(int(begin), int(end)) for begin, end in cells if begin.isdigit() and end.isdigit()]
        self.assertTrue(numbers and all(1 <= begin <= end <= count for begin, end in numbers), cells)

    def test_a_run_shows_its_events_and_the_plan_that_it_kept(self):
        self.open("run", self.run_folder)
        events = [json.loads(line) for line in (self.run_folder / "events.jsonl").read_text().splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        facts = dict(self.js("return [...document.querySelectorAll('.input-head .facts div')].map((fact) => [fact.querySelector('dt')."
                             "textContent, Number(fact.querySelector('[data-bytes]')?.dataset.bytes)])"))
        memories = [event["memory"] for event in events if event["event"] in ("step", "eval")]
        self.assertEqual(facts["peak allocated"], max(memory["peak_allocated"] for memory in memories))
        self.assertEqual(facts["peak reserved"], max(memory["peak_reserved"] for memory in memories))
        self.assertEqual(facts["most used"], max(memory["device_used"] for memory in memories))
        self.assertIn(f"The peaks of all {len(steps)} steps are those planned", self.find("main").text)
        # The curve's table holds each step's loss.
        self.js("document.querySelector('.curve .data-table').open = true")
        self.frame()
        rows = self.js("return [...document.querySelectorAll('.curve .data-table tbody tr')].map((row) => [row.cells[0].textContent, "
                       "row.cells[1].textContent])")
        shown = {int(step.replace(",", "")): loss for step, loss in rows if loss}
        self.assertEqual(set(shown), {event["step"] for event in steps})
        for event in steps:
            self.assertAlmostEqual(float(shown[event["step"]]), event["loss"], delta=1e-4 * abs(event["loss"]))

    def test_what_does_not_fit_is_drawn_with_its_fixes(self):
        self.open("too_large", QUICKSTART, "--capacity", "4MiB")
        plan = self.plan_of(QUICKSTART, "--capacity", "4MiB", code=4)
        self.assertIn("Does not fit", self.find(".input-head").text)
        rows = self.js("return [...document.querySelectorAll('#fixes tbody tr')].map((row) => [row.cells[0].textContent, "
                       "Number(row.querySelector('[data-bytes]').dataset.bytes), row.cells[6].textContent])")
        self.assertEqual([row[:2] for row in rows], [[" ".join(fix["set"]), fix["peak_reserved"]] for fix in plan["fixes"]])
        for (_, _, command), fix in zip(rows, plan["fixes"]):
            self.assertTrue(all(word in command for word in fix["set"]), command)
        self.assertEqual(self.map()["allocated"], plan["peak"]["bytes"])

    def test_compared_plans_differ_by_sums_that_are_exact(self):
        self.open("compared", QUICKSTART, QUICKSTART, "train.batch_size=128")
        first, second = self.plan_of(QUICKSTART), self.plan_of(QUICKSTART, "train.batch_size=128")
        growth = second["peak"]["bytes"] - first["peak"]["bytes"]
        for table in ("#growth-category-1", "#growth-layer-1"):
            rows = self.bytes_of(table)
            total = rows.pop("allocated at the peak")
            self.assertEqual(total, [first["peak"]["bytes"], second["peak"]["bytes"], growth])
            self.assertEqual(sum(values[1] - values[0] for values in rows.values()), growth)
        self.assertEqual(self.bytes_of("#compared-figures")["peak reserved"],
                         [first["peak_reserved"], second["peak_reserved"], second["peak_reserved"] - first["peak_reserved"]])
        keys = self.js("return [...document.querySelectorAll('#compared-keys tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
        self.assertEqual(keys, [["train.batch_size", "64", "128"]])
        # One goes where the other goes.
        self.js("arguments[0].focus()", self.canvas())
        ActionChains(self.driver).send_keys("+", Keys.ARROW_RIGHT).perform()
        self.assertEqual(self.map(0)["x"], self.map(1)["x"])
        self.assertLess(self.map(1)["x"][1] - self.map(1)["x"][0], 1)

    # What one does with it.

    def test_a_map_is_panned_and_zoomed_by_mouse_and_wheel(self):
        self.open("plan", QUICKSTART)
        canvas = self.canvas()
        ActionChains(self.driver).move_to_element(canvas).click().perform()
        ActionChains(self.driver).scroll_from_origin(webdriver.common.actions.wheel_input.ScrollOrigin.from_element(canvas), 0, -300).perform()
        zoomed = self.map()
        width = zoomed["x"][1] - zoomed["x"][0]
        self.assertLess(width, 0.95)
        ActionChains(self.driver).move_to_element(canvas).click_and_hold().move_by_offset(-120, 0).release().perform()
        moved = self.map()
        self.assertGreater(moved["x"][0], zoomed["x"][0])
        self.assertAlmostEqual(moved["x"][1] - moved["x"][0], width)
        ActionChains(self.driver).key_down(Keys.SHIFT).move_to_element(canvas).click_and_hold().move_by_offset(200, 100).release().key_up(Keys.SHIFT).perform()
        boxed = self.map()
        self.assertLess(boxed["x"][1] - boxed["x"][0], width)
        self.assertLess(boxed["y"][1] - boxed["y"][0], 1)
        self.find("button[title='Show the whole step']").click()
        self.assertEqual((self.map()["x"], self.map()["y"]), ([0, 1], [0, 1]))

    def test_a_block_is_named_under_the_mouse_and_chosen_by_a_click_with_its_row(self):
        self.open("plan", QUICKSTART)
        canvas = self.canvas()
        ActionChains(self.driver).move_to_element_with_offset(canvas, 0, int(canvas.size["height"] / 2) - 60).perform()
        self.frame()
        tip = self.find(".tip").text
        self.assertIn("9.weight", tip)
        self.assertIn("requested", tip)
        ActionChains(self.driver).click().perform()
        state = self.map()
        self.assertTrue(state["isPinned"])
        self.assertIn(state["selected"], tip)
        self.assertEqual(self.find(".buffers tr.chosen th").text, state["selected"])
        self.assertIn(state["selected"], self.find(".selection").text)

    def test_search_counts_what_it_finds_and_filters_hide_the_rest(self):
        self.open("plan", QUICKSTART)
        whole = self.map()
        box = self.find("input[type=search]")
        box.send_keys("WEIGHT.GRAD")
        found = self.map()
        self.assertGreater(found["matches"], 0)
        self.assertLess(found["matches"], whole["matches"])
        names = self.js("return [...document.querySelectorAll('.buffers tbody tr:not(.space) th')].map((cell) => cell.textContent)")
        self.assertEqual(len(names), found["matches"])
        self.assertTrue(all("weight.grad" in name for name in names), names)
        self.assertTrue(self.find(".search-result").text.startswith(f"{found['matches']} buffer"))
        self.assertEqual(float(self.find(".long").get_attribute("data-bytes")), found["matchBytes"])
        box.send_keys(Keys.ESCAPE)
        self.assertEqual(self.map()["matches"], whole["matches"])
        plan = self.plan_of(QUICKSTART)
        button = self.find("button[data-category=activation]")
        button.click()
        self.assertEqual(self.map()["matchBytesAtPeak"], plan["peak"]["bytes"] - plan["by_category"]["activation"])
        self.find("button[data-category=activation]").click()
        layer = next(each for each in plan["by_layer"] if each["layer"] == "9 (linear)")
        self.js("const select = [...document.querySelectorAll('select')][2]; select.value = [...select.options].find((option) => "
                "option.textContent === '9 (linear)').value; select.dispatchEvent(new Event('change'))")
        self.assertEqual(self.map()["matchBytesAtPeak"], layer["bytes"])

    def test_everything_is_reached_by_keys(self):
        self.open("plan", QUICKSTART)
        press = lambda *keys: ActionChains(self.driver).send_keys(*keys).perform()
        self.find("h1").click()
        for _ in range(60):
            press(Keys.TAB)
            if self.js("return document.activeElement.tagName === 'CANVAS' && document.activeElement.getAttribute('aria-label').startsWith('Map')"):
                break
        else:
            self.fail("Tab does not reach the map")
        self.assertEqual(self.js("return getComputedStyle(document.activeElement).outlineStyle"), "solid")
        press("+", "+")
        self.assertLess(self.map()["x"][1] - self.map()["x"][0], 0.6)
        press(">")
        self.assertLess(self.map()["y"][1] - self.map()["y"][0], 1)
        press("0")
        self.assertEqual(self.map()["x"], [0, 1])
        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT).key_up(Keys.SHIFT).perform()
        self.assertEqual(self.map()["cursor"], self.map()["peak"] - 1)
        press("p")
        self.assertEqual(self.map()["cursor"], self.map()["peak"])
        press(Keys.ENTER)
        self.assertIsNotNone(self.map()["selected"])
        press(Keys.ESCAPE)
        self.assertIsNone(self.map()["selected"])
        press("/")
        press("moment")
        press(Keys.ENTER)
        self.assertIn("moment", self.map()["selected"])
        press(Keys.ESCAPE)
        press("?")
        self.assertTrue(self.js("return document.querySelector('dialog').open"))
        press(Keys.ESCAPE)
        self.assertFalse(self.js("return document.querySelector('dialog').open"))

    def test_tables_are_sorted_by_their_titles(self):
        self.open("plan", QUICKSTART)
        first = lambda: self.js("return document.querySelector('.buffers tbody tr:not(.space) th').textContent")
        titles = self.driver.find_elements(By.CSS_SELECTOR, ".buffers .sort")
        titles[0].click()
        lowest = first()
        titles[0].click()
        self.assertGreater(first(), lowest)
        self.assertEqual(self.find(".buffers th[aria-sort=descending]").text.split()[0], "buffer")

    # How it looks.

    def contrasts(self):
        """Of each colour variable of shapes and texts against both backgrounds, by WCAG 2."""
        colours = self.js("const style = getComputedStyle(document.documentElement); const names = ['paper', 'plot', 'cached', 'card', 'ink', "
                          "'quiet', 'good', 'alarm', 'accent', 'frame', 'focus', ...[...Array(9).keys()].map((i) => 'category' + i), "
                          "...[...Array(6).keys()].flatMap((i) => ['phase' + i, 'curve' + i]), ...[...Array(12).keys()].map((i) => 'layer' + i)]; "
                          "return Object.fromEntries(names.map((name) => [name, style.getPropertyValue('--' + name).trim()]))")

        def luminance(text):
            parts = [int(text[at:at + 2], 16) / 255 for at in (1, 3, 5)]
            parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

        def contrast(a, b):
            low, high = sorted((luminance(colours[a]), luminance(colours[b])))
            return (high + 0.05) / (low + 0.05)

        for text in ("ink", "quiet", "good", "alarm"):
            for paper in ("paper", "card", "plot"):
                self.assertGreaterEqual(contrast(text, paper), 4.5, (text, paper))
        for shape in colours:
            if re.search(r"\d$|accent|frame|focus", shape):
                self.assertGreaterEqual(contrast(shape, "plot"), 3, shape)
                if shape.startswith(("category", "layer", "phase")):
                    self.assertGreaterEqual(contrast(shape, "cached"), 2.4, shape)

    def test_both_themes_have_contrast_and_the_button_goes_through_them(self):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        self.open("plan", QUICKSTART)
        self.assertEqual(self.js("return window.trainerReport.theme"), "dark")
        dark = self.js("return getComputedStyle(document.body).backgroundColor")
        self.contrasts()
        self.find("#theme").click()
        self.assertEqual(self.js("return window.trainerReport.theme"), "light")
        self.assertNotEqual(self.js("return getComputedStyle(document.body).backgroundColor"), dark)
        self.contrasts()
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_paper_shows_all_sections_and_no_controls(self):
        self.open("run", self.run_folder)
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.js("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.js("return window.trainerReport.theme"), "light")
        self.assertEqual(self.js("return [...document.querySelectorAll('details.section')].filter((each) => !each.open).length"), 0)
        for selector, is_shown in ((".controls", False), (".page-tools", False), (".long", False), (".print-only table", True), ("pre.config", True)):
            self.assertEqual(self.find(selector).is_displayed(), is_shown, selector)
        self.js("dispatchEvent(new Event('afterprint'))")
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def test_pictures_have_texts_and_tables_of_the_same(self):
        self.open("run", self.run_folder)
        pictures = self.js("return [...document.querySelectorAll('[role=img]')].map((picture) => picture.getAttribute('aria-label'))")
        self.assertGreaterEqual(len(pictures), 7)
        self.assertTrue(all(len(text) > 30 for text in pictures), pictures)
        self.assertEqual(len(self.driver.find_elements(By.CSS_SELECTOR, "figure.curve")), len(self.driver.find_elements(By.CSS_SELECTOR, "figure.curve .data-table")))

    # What it refuses.

    def hostile_run(self):
        folder = self.folder / "hostile"
        folder.mkdir(exist_ok=True)
        lines = []
        for line in (self.run_folder / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "start":
                event["config"]["name"] = HOSTILE
                event["device"]["name"] = HOSTILE
                event["version"] = HOSTILE
            if event["event"] == "step":
                event["stage"] = HOSTILE if event["step"] < 20 else "b" + HOSTILE
            if event["event"] == "end":
                event["status"] = HOSTILE
                event["error"] = HOSTILE
                lines.append({"event": "warning", "step": 3, "message": HOSTILE})
                lines.append({"event": "adapt", "step": 3, "set": [HOSTILE], "what": HOSTILE})
                lines.append({"event": "diverged", "step": 3, "layer": HOSTILE, "tensor": HOSTILE, HOSTILE: HOSTILE})
                lines.append({"event": "oom", "step": 3, "phase": HOSTILE, "layer": HOSTILE, "buffer": HOSTILE, "requested": 1, "allocated": 1,
                              "reserved": 1, "capacity": 1, "top": [{"name": HOSTILE, "layer": HOSTILE, "category": HOSTILE, "bytes": 1}],
                              "fixes": [{"set": [HOSTILE], "what": HOSTILE, "peak_reserved": 1, "fits": True, "numbers": HOSTILE, "relative_step_time": 1}]})
            lines.append(event)
        (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder

    def test_hostile_names_are_text_everywhere(self):
        folder = self.hostile_run()
        self.open("hostile", folder, folder, self.run_folder)
        self.js("for (const details of document.querySelectorAll('details')) details.open = true")
        self.frame()
        self.assertIsNone(self.js("return window.wasHostile ?? null"))
        self.assertEqual(self.driver.find_elements(By.CSS_SELECTOR, "img, iframe, object, embed, link"), [])
        self.assertEqual(self.js("return document.scripts.length"), 4)
        text = self.js("return document.querySelector('#page').textContent")
        at = text.find("\u202e")
        self.assertEqual(at, -1, text[max(0, at - 200):at])
        self.assertTrue("⟨U+202E⟩" in text)
        self.assertTrue("window.wasHostile" in self.find("main").text)
        self.assertLess(len(self.find("main").text), 200_000)
        self.assertLess(self.js("return document.documentElement.scrollWidth"), 1300)
        self.assertEqual(self.js("return [...document.querySelectorAll('*')].flatMap((each) => [...each.attributes]).filter((each) => each.name.startsWith('on')).length"), 0)

    def test_letters_that_show_nothing_are_written_out(self):
        folder = self.folder / "blank"
        folder.mkdir()
        lines = [json.loads(line) for line in (self.run_folder / "events.jsonl").read_text().splitlines()]
        letters = (0xad, 0x180e, 0x202e, 0x2028, 0x2800, 0x3164, 0xfff9, 0xe0041)
        lines[0]["device"]["name"] = "".join(map(chr, letters)) + "Ünïcode 漢字 🙂"
        lines[-1]["status"] = "constructor"
        (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.open("blank", folder)
        text = self.js("return document.querySelector('.input-head').textContent")
        self.assertIn("".join(f"⟨U+{letter:04X}⟩" for letter in letters[:3]), text)
        whole = self.js("return [...document.querySelectorAll('.input-head .facts [title]')].map((each) => each.title)")
        self.assertTrue(any("".join(f"⟨U+{letter:04X}⟩" for letter in letters) + "Ünïcode 漢字 🙂" in title for title in whole), whole)
        # A status of the file that every object has as a name is that name.
        self.assertIn("constructor", [badge.text for badge in self.driver.find_elements(By.CSS_SELECTOR, ".badge")])

    def test_times_have_the_unit_of_what_is_shown(self):
        folder = self.folder / "times"
        folder.mkdir()
        lines = [json.loads(line) for line in (self.run_folder / "events.jsonl").read_text().splitlines()]
        for seconds, text in ((0.9999, "1.00 s"), (0.00099996, "1.00 ms"), (59.999, "1 min 00 s"), (3599.7, "1 h 00 min"), (59.99, "59.99 s"), (0.0123, "12.3 ms")):
            lines[-1]["seconds"] = seconds
            (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            self.open(f"times {seconds}", folder)
            facts = dict(self.js("return [...document.querySelectorAll('.input-head .facts div')].map((fact) => [fact.querySelector('dt')."
                                 "textContent, fact.querySelector('dd').textContent])"))
            self.assertEqual(facts["time"], text)

    def test_what_comes_without_end_is_shown_in_part_with_the_count_of_all(self):
        folder = self.folder / "endless"
        folder.mkdir()
        lines = (self.run_folder / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        checkpoint = {"event": "checkpoint", "step": 1, "path": "x", "bytes": 1}
        evaluation = next(event for event in events if event["event"] == "eval")
        added = [dict(checkpoint, step=step) for step in range(1, 20001)]
        added += [{"event": "adapt", "step": step, "set": ["train.batch_size=1"], "what": "x"} for step in range(1, 3001)]
        added += [dict(evaluation, step=step, loss=-5.0 if step == 7777 else 1.0 + step % 3) for step in range(1, 20001)]
        count = sum(event["event"] == "checkpoint" for event in events) + 20000
        (folder / "events.jsonl").write_text("\n".join([*lines[:-1], *map(json.dumps, added), lines[-1]]) + "\n")
        path = self.open("endless", folder)
        run = json.loads(re.search(r'id="report-data">(.*?)</script>', path.read_text(), re.S).group(1))["inputs"][0]["run"]
        self.assertEqual((len(run["checkpoints"]), run["num_checkpoints"]), (200, count))
        self.assertEqual((len(run["adaptations"]), run["num_adaptations"]), (200, 3000))
        self.assertLessEqual(run["evaluations"]["steps"]["count"], 4000)
        self.assertGreaterEqual(run["evaluations"]["of"], 20000)
        text = self.js("return document.querySelector('main').textContent")
        self.assertIn(f"checkpoints (200 of {count:,})", text)
        self.assertIn("What it changed by itself (200 of 3,000)", text)
        # The lowest of them is kept.
        self.assertTrue(any("lowest -5," in label for label in self.js(
            "return [...document.querySelectorAll('.curve-box')].map((box) => box.getAttribute('aria-label'))")))

    def test_a_policy_names_all_that_may_run_and_nothing_else_does(self):
        path = self.open("run", self.run_folder)
        html = path.read_text()
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1)
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        for kind, body in re.findall(r"<(script|style)>(.*?)</\1>", html, re.S):
            digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
            self.assertIn(f"'sha256-{digest}'", policy, kind)
        self.js("const script = document.createElement('script'); script.textContent = 'window.wasAdded = 1'; document.body.append(script)")
        self.assertIsNone(self.js("return window.wasAdded ?? null"))
        refused = self.driver.get_log("browser")
        self.assertTrue(refused and all("Content Security Policy" in entry["message"] for entry in refused), refused)
        self.assertNotRegex(html, r"sourceMappingURL|https?://[^\s\"']*\.(js|css)\b(?![^<]*LICENSE)")

    def test_a_browser_that_cannot_unpack_says_so(self):
        path = self.make("plan", QUICKSTART)
        self.driver.execute_cdp_cmd("Page.enable", {})
        identifier = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"})["identifier"]
        self.driver.get(f"file://{path}")
        self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": identifier})
        self.assertIn("lacks DecompressionStream", self.find(".problem").text)
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        self.assertTrue(messages and all("cannot unpack" in message for message in messages), messages)


class Commands(unittest.TestCase):
    """What `report` takes and refuses, without a browser."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def report(self, *words, code=0):
        done = subprocess.run([TRAINER, "report", *map(str, words)], cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def data_of(self, page):
        return json.loads(re.search(r'id="report-data">(.*?)</script>', page.read_text(), re.S).group(1))

    def test_mistakes_are_told_with_their_exit_codes(self):
        page = self.folder / "page.html"
        self.assertIn("-o", self.report(QUICKSTART, code=2))
        self.assertIn("stands before any input", self.report("train.batch_size=3", "-o", page, code=2))
        self.assertIn("holds no run", self.report(self.folder, "-o", page, code=6))
        self.assertIn("is not there", self.report("nowhere.jsonl", "-o", page, code=6))
        pipe = self.folder / "pipe.jsonl"
        os.mkfifo(pipe)
        self.assertIn("is no file", self.report(pipe, "-o", page, code=6))
        pipe.unlink()
        self.assertIn("train.batch_siz", self.report(QUICKSTART, "train.batch_siz=3", "-o", page, code=2))
        self.assertIn("there is no rank 7", self.report(QUICKSTART, "--rank", "7", "-o", page, code=2))
        self.assertIn("not a list of ranks", self.report(QUICKSTART, "--rank", "x", "-o", page, code=2))
        self.assertIn("is a list", self.report(QUICKSTART, "--gpu", "h100,t4", "-o", page, code=2))
        self.assertIn("no-such-gpu", self.report(QUICKSTART, "--gpu", "no-such-gpu", "-o", page, code=2))
        self.assertIn("is read by this command", self.report(QUICKSTART, "-o", QUICKSTART, "--overwrite", code=6))
        self.assertIn("cannot", self.report(QUICKSTART, "-o", self.folder / "missing" / "page.html", code=6))
        self.assertEqual(list(self.folder.iterdir()), [])
        self.report(QUICKSTART, "-o", page)
        self.assertIn("--overwrite", self.report(QUICKSTART, "-o", page, code=6))
        self.assertEqual(self.report(QUICKSTART, "-o", page, "--overwrite", "--quiet"), "")

    def test_an_unfinished_run_and_one_on_a_gpu_that_is_not_here_are_shown(self):
        run = self.folder / "run"
        run_trainer("run", QUICKSTART, "train.steps=5", f"output={run}", "--quiet")
        lines = (run / "events.jsonl").read_text().splitlines()
        start = json.loads(lines[0])
        start["device"] = {"kind": "cuda", "name": "NVIDIA H100 80GB HBM3", "capacity": 1 << 30}
        half = self.folder / "half.jsonl"
        half.write_text("\n".join([json.dumps(start), *lines[1:4], lines[4][:40]]))
        self.report(half, "-o", self.folder / "half.html")
        data = self.data_of(self.folder / "half.html")
        self.assertEqual(data["inputs"][0]["run"]["status"], "unfinished")
        self.assertEqual(data["plans"][0]["event"]["device"]["name"], "NVIDIA H100 80GB HBM3")
        self.assertEqual(data["plans"][0]["event"]["capacity"], 1 << 30)
        start["device"]["name"] = "NVIDIA Unheard Of"
        half.write_text(json.dumps(start) + "\n")
        self.report(half, "-o", self.folder / "unknown.html")
        data = self.data_of(self.folder / "unknown.html")
        self.assertEqual(data["plans"], [])
        self.assertIn("NVIDIA Unheard Of", data["inputs"][0]["no_plan"])

    def test_ranks_are_compared_and_stages_are_all_shown(self):
        page = self.folder / "ranks.html"
        self.report(QUICKSTART, "parallel.data=2", "parallel.shard=parameters", "--rank", "0,1", "-o", page)
        data = self.data_of(page)
        self.assertEqual([plan["rank"] for plan in data["plans"]], [0, 1])
        self.assertEqual(len(data["comparison"]["growth"]), 1)
        self.report("configs/stages.yaml", "-o", self.folder / "stages.html")
        stages = self.data_of(self.folder / "stages.html")["plans"]
        self.assertEqual([plan["stage"] for plan in stages], [plan["stage"] for plan in json.loads(run_trainer("plan", "configs/stages.yaml", "--json"))["stages"]])

    def test_the_data_of_a_page_are_no_markup(self):
        page = self.folder / "page.html"
        config = self.folder / "a<b>&.yaml"
        config.write_text((REPOSITORY / QUICKSTART).read_text())
        self.report(config, "-o", page)
        data = re.search(r'id="report-data">(.*?)</script>', page.read_text(), re.S).group(1)
        self.assertNotIn("<", data)
        self.assertEqual(json.loads(data)["inputs"][0]["path"], str(config))


if __name__ == "__main__":
    unittest.main()
