"""Asks trainer, and reads what it answers: JSON Lines, as README.md and `trainer COMMAND --help` describe them."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXIT_REFUSED = 2  # what was asked for cannot be
EXIT_DOES_NOT_FIT = 4


class TrainerFailed(Exception):
    """An answer that is none: what was asked, and the end of what trainer said to it."""

    def __init__(self, message, exit_code=None):
        super().__init__(message)
        self.exit_code = exit_code


class Trainer:
    """One build of trainer; without a path scripts/trainer, which builds what is missing."""

    def __init__(self, binary=None):
        self.binary = pathlib.Path(binary).resolve() if binary else ROOT / "scripts" / "trainer"

    def ask(self, *words, accept=(0,)):
        """What the command prints on stdout. Raises TrainerFailed where it ends with another code than accepted."""
        command = [str(word) for word in words]
        try:
            result = subprocess.run([str(self.binary), *command, "--json"], cwd=ROOT, stdin=subprocess.DEVNULL,
                                    capture_output=True, text=True, check=False, env={"OMP_NUM_THREADS": "2", **os.environ})
        except OSError as error:
            raise TrainerFailed(f"{self.binary}: {error.strerror}") from None
        if result.returncode not in accept:
            said = (result.stderr.strip() or result.stdout.strip()).splitlines()[-6:]
            raise TrainerFailed("\n  ".join([f"trainer {' '.join(command)} ended with {result.returncode}:", *said]),
                                result.returncode)
        return result.stdout

    def config(self, *words):
        """The experiment with every default filled in, as `config show` prints it."""
        return json.loads(self.ask("config", "show", *words))

    def summary(self, *words):
        return json.loads(self.ask("summary", *words))

    def plan(self, *words):
        """The plan event; `fits` tells whether the run does."""
        return json.loads(self.ask("plan", *words, accept=(0, EXIT_DOES_NOT_FIT)))

    def run(self, *words):
        """All events of a run."""
        return [json.loads(line) for line in self.ask("run", *words).splitlines()]


def field(event, name):
    """event[name]; where it is missing, TrainerFailed says so: an older trainer does not tell it."""
    if name not in event:
        raise TrainerFailed(f"the event '{event.get('event')}' has no '{name}': build the trainer of this repository")
    return event[name]


def measured_trainer(parser, num_runs, of_what):
    """Adds --trainer and --runs to a benchmark's parser. Returns what was given, and the program to measure."""
    parser.add_argument("--trainer", help="the program to measure; scripts/trainer where not given")
    parser.add_argument("--runs", type=int, default=num_runs, help=f"of each {of_what} ({num_runs})")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs is at least 1")
    trainer = Trainer(arguments.trainer)
    if not trainer.binary.exists():
        parser.error(f"there is no {trainer.binary}")
    return arguments, trainer
