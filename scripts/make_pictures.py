#!/usr/bin/env python3
"""scripts/make_pictures.py [--readme] [--binary TRAINER] [-o FOLDER] [CONFIG…]: how reports look, to be looked at.

Writes the report of each shipped configuration (or those named), and pictures of it in both themes, wide and narrow, into
FOLDER (build/pictures). --readme instead writes the two pictures of README.md into configs/pictures/: the plan of the
quickstart beside its run, light, and the plan of a GPT that does not fit, dark.
Debian's chromium, chromium-driver and python3-selenium make them.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import interpreters

try:
    from selenium import webdriver
except ImportError:
    interpreters.go_on_as_system()
    raise
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTHS = {"wide": 1280, "narrow": 800}
LONGEST = 12_000  # pixels of a page that a picture shows


class Browser:
    def __init__(self):
        options = Options()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"):
            options.add_argument(word)
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)

    def picture(self, page, path, theme, width, height=None):
        """The whole page, or as much as has the height."""
        command = self.driver.execute_cdp_cmd
        command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        command("Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height or 900, "deviceScaleFactor": 1, "mobile": False})
        self.driver.get(page.resolve().as_uri())
        self.driver.implicitly_wait(5)
        self.driver.execute_async_script(
            "const done = arguments[0]; const look = () => window.trainerReport && window.trainerReport.isReady ? "
            "requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(look, 50); look();")
        if height is None:
            whole = min(self.driver.execute_script("return document.documentElement.scrollHeight"), LONGEST)
            command("Emulation.setDeviceMetricsOverride",
                    {"width": width, "height": whole, "deviceScaleFactor": 1, "mobile": False})
            self.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 400);")
        self.driver.save_screenshot(str(path))


def shipped():
    return sorted(path for folder in ("configs", "configs/memory", "configs/bench")
                  for path in (ROOT / folder).glob("*.yaml"))


def report(binary, output, folder, *words):
    """None where the report is written, else what trainer said."""
    done = subprocess.run([binary, "report", *map(str, words), "-o", output, "--overwrite"], cwd=folder, capture_output=True,
                          text=True, check=False)
    return None if output.exists() and done.returncode == 0 else done.stderr.strip().splitlines()[-1:]


def demand(problem):
    if problem is not None:
        sys.exit(" ".join(problem))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", type=pathlib.Path)
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--binary", default=ROOT / "build/release/trainer", type=pathlib.Path)
    parser.add_argument("-o", "--output", default=ROOT / "build/pictures", type=pathlib.Path)
    asked = parser.parse_args()
    binary = asked.binary.resolve()
    browser = Browser()
    if asked.readme:
        target = ROOT / "configs/pictures"
        target.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as name:
            # Called and named as README.md calls and names things.
            folder = pathlib.Path(name)
            (folder / "configs").symlink_to(ROOT / "configs")
            (folder / "scripts").mkdir()
            (folder / "scripts/trainer").symlink_to(binary)
            binary = pathlib.Path("scripts/trainer")
            subprocess.run([binary, "run", "configs/quickstart.yaml", "-q"], cwd=folder, check=True)
            page = folder / "report.html"
            demand(report(binary, page, folder, "runs/quickstart"))
            browser.picture(page, target / "report-run.png", "light", 1280, 900)
            demand(report(binary, page, folder, "configs/memory/gpt2.yaml", "train.batch_size=8", "--gpu", "rtx3060-12gb"))
            browser.picture(page, target / "report-plan.png", "dark", 1280, 900)
        return
    asked.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for config in asked.configs or shipped():
        page = asked.output / f"{config.parent.name}-{config.stem}.html"
        problem = report(binary, page, ROOT, config.resolve().relative_to(ROOT))
        if problem is not None:
            print(f"{config}: no report: {' '.join(problem)}", file=sys.stderr)
            failed += 1
            continue
        for theme in ("light", "dark"):
            for name, width in WIDTHS.items():
                browser.picture(page, page.with_name(f"{page.stem}-{theme}-{name}.png"), theme, width)
        print(page)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
