// SPDX-License-Identifier: Apache-2.0
//
// TANDEM_INTERNAL_API marks the few names below include/tandem that a shared libtandem lets
// tandem_mpi link: the rooms symm and platform as src/mpi uses them. They are no API: the two
// libraries are built together and belong together. The rooms keep state per process (who has
// promised what memory, test delays), so that a copy of them inside tandem_mpi would be a second
// truth. tests/install/internal_api.txt lists every one; keep it short.
#pragma once

#define TANDEM_INTERNAL_API __attribute__((visibility("default")))
