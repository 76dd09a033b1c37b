"""That no kernel of the compiled module touches memory before it has waited: Note [Early start] in cuda/launch/launch.h.

CUOBJDUMP and TRAINER_CUDA_MODULE name the tool and the module. The compiler may move what it takes for constant, a load
of `const T* __restrict__`, to the front of a kernel, so the source alone does not tell.
"""
import os
import re
import subprocess
import unittest

# Global memory in any form; what is in the block's own shared memory, and arguments, may be read before.
TOUCHES_MEMORY = re.compile(r"^(LDG|STG|LD|ST|ATOMG?|REDG?|RED|LDGSTS|UTMA\w+|UBLK\w+|TEX|TLD|SULD|SUST|CCTL)(\.|$)")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)")


def kernels_of(listing):
    """Yields each kernel's image, name and instructions."""
    image, name, instructions = "", None, []
    for line in listing:
        if match := re.match(r"\s*code for (sm_\d+)", line):
            image = match[1]
        elif match := re.match(r"\s*Function : (\S+)", line):
            if name is not None:
                yield name, instructions
            name, instructions = f"{image} {match[1]}", []
        elif match := INSTRUCTION.match(line):
            instructions.append(match[1])
    if name is not None:
        yield name, instructions


def complaint_about(instructions):
    """What is wrong with a kernel; None where it waits first."""
    for instruction in instructions:
        if instruction.startswith("ACQBULK"):
            return None
        if TOUCHES_MEMORY.match(instruction) or instruction.startswith(("EXIT", "RET")):
            return f"{instruction} comes before the wait"
    return "it does not wait"


class EarlyStart(unittest.TestCase):
    def test_wrong_kernels_are_found(self):
        listing = ["code for sm_90", "Function : late",
                   "        /*0000*/                   LDC R1, c[0x0][0x28] ;   /* 0x00000a00ff017b82 */",
                   "        /*0010*/              @!P0 LDG.E.CONSTANT R2, [R2.64] ;",
                   "        /*0020*/                   ACQBULK ;", "Function : never",
                   "        /*0000*/                   S2R R0, SR_TID.X ;", "Function : leaves",
                   "        /*0000*/               @P0 EXIT ;", "        /*0010*/                   ACQBULK ;",
                   "Function : right", "        /*0000*/                   LDS R0, [R1] ;",
                   "        /*0010*/                   ACQBULK ;", "        /*0020*/                   LDG.E R2, [R2.64] ;"]
        complaints = {name: complaint_about(instructions) for name, instructions in kernels_of(listing)}
        self.assertEqual(complaints, {"sm_90 late": "LDG.E.CONSTANT comes before the wait",
                                      "sm_90 never": "it does not wait",
                                      "sm_90 leaves": "EXIT comes before the wait", "sm_90 right": None})

    def test_every_kernel_waits_before_it_touches_memory(self):
        with subprocess.Popen([os.environ["CUOBJDUMP"], "-sass", os.environ["TRAINER_CUDA_MODULE"]],
                              stdout=subprocess.PIPE, text=True) as listing:
            checked, wrong = 0, []
            for name, instructions in kernels_of(listing.stdout):
                if int(re.match(r"sm_(\d+)", name)[1]) < 90:
                    continue  # these are never started early
                checked += 1
                if complaint := complaint_about(instructions):
                    wrong.append(f"{name}: {complaint}")
        self.assertEqual(listing.returncode, 0)
        self.assertEqual(wrong, [])
        if "sm_90" in os.environ["TRAINER_CUDA_IMAGES"]:
            self.assertGreater(checked, 100)


if __name__ == "__main__":
    unittest.main()
