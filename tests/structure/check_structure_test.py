#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Proves that check_structure.py can fail: plants one violation of each rule in a small tree and
# expects exactly that message, and none in the tree without it. Run by ctest as
# structure.selftest.
import pathlib
import tempfile
import unittest

from check_structure import violations

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HASH_SPDX = "# SPDX-License-Identifier: Apache-2.0\n"

CLEAN = {
    "include/tandem/status.h": SPDX + "#include <cstdint>\n",
    "include/tandem/world.h": SPDX + '#include "tandem/status.h"\n',
    "src/base/shape.cc": SPDX + '#include "tandem/status.h"\n#include <fmt/format.h>\n',
    "src/platform/park.cc": SPDX + '#include <sys/syscall.h>\n#include "base/shape.h"\n',
    "src/tile/kernel.cc": SPDX + '#include <hwy/highway.h>\n#include "tile/contract.h"\n',
    "src/stream/engine.cc": SPDX + '#include "block/multiply.h"\n#include "transport/lane.h"\n',
    "src/tile/CMakeLists.txt": HASH_SPDX + "tandem_room(tile USES base SOURCES kernel.cc)\n",
    "tools/main.cc": SPDX + '#include <unistd.h>\n#include <CLI/CLI.hpp>\n#include "tandem/world.h"\n',
    "tests/multi/ranks_test.cc": SPDX + '#include <sys/wait.h>\n#include "symm/window.h"\n',
    "scripts/install.sh": "#!/usr/bin/env bash\n" + HASH_SPDX,
}

# What is planted, and what the message must say.
PLANTED = [
    ("src/base/up.cc", SPDX + '#include "op/operator.h"\n', "base may not include op"),
    ("src/tile/side.cc", SPDX + '#include "symm/window.h"\n', "tile may not include symm"),
    ("src/block/side.cc", SPDX + '#include "transport/lane.h"\n', "block may not include transport"),
    ("src/transport/side.cc", SPDX + '#include "block/multiply.h"\n', "transport may not include block"),
    ("src/stream/up.cc", SPDX + '#include "op/world.h"\n', "stream may not include op"),
    ("src/base/odd.cc", SPDX + '#include "shape.h"\n', "names no room"),
    ("src/attic/old.cc", SPDX, "src/attic is not a room"),
    ("include/tandem/leak.h", SPDX + '#include "symm/world.h"\n', "is not a public header"),
    ("include/tandem/simd.h", SPDX + "#include <immintrin.h>\n", "may not be included here"),
    ("tools/leak.cc", SPDX + '#include "stream/chunk_plan.h"\n', "reaches behind the public headers"),
    ("tools/system.cc", SPDX + "#include <sys/mman.h>\n", "may not be included here"),
    ("examples/leak.cc", SPDX + '#include "op/world.h"\n', "is not a public header"),
    ("src/symm/system.cc", SPDX + "#include <sys/mman.h>\n", "may not be included here"),
    ("src/op/system.cc", SPDX + "#include <unistd.h>\n", "may not be included here"),
    ("src/stream/topology.cc", SPDX + "#include <hwloc.h>\n", "may not be included here"),
    ("src/block/simd.cc", SPDX + "#include <immintrin.h>\n", "may not be included here"),
    ("src/platform/simd.cc", SPDX + "#include <hwy/highway.h>\n", "may not be included here"),
    ("src/base/utils.cc", SPDX, "says nothing"),
    ("tests/common/data.cc", SPDX, "says nothing"),
    ("src/base/bare.cc", "// no licence\n", "SPDX"),
    ("scripts/bare.sh", "#!/usr/bin/env bash\necho\n", "SPDX"),
    ("src/base/long.cc", SPDX + "//\n" * 500, "501 lines"),
    ("src/block/CMakeLists.txt", HASH_SPDX + "tandem_room(block USES tile symm SOURCES a.cc)\n",
     "block may not use symm"),
]


def found_in(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return list(violations(root))


class CheckStructure(unittest.TestCase):
    def test_clean_tree_passes(self):
        self.assertEqual(found_in(CLEAN), [])

    def test_each_planted_violation_is_found(self):
        for name, text, message in PLANTED:
            with self.subTest(name):
                found = found_in({**CLEAN, name: text})
                self.assertEqual(len(found), 1, found)
                self.assertIn(message, found[0])
                self.assertTrue(found[0].startswith(name), found[0])


if __name__ == "__main__":
    unittest.main()
