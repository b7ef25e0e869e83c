// SPDX-License-Identifier: Apache-2.0
//
// TANDEM_API marks what a shared libtandem lets others link: the functions and classes of these
// headers, and nothing else (the library is compiled with hidden visibility). In a static library
// it changes nothing. tests/install checks the names of the installed library against this rule.
#pragma once

#define TANDEM_API __attribute__((visibility("default")))
