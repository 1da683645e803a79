// Precompiled for every test program (CMakeLists.txt).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/precompiled.h"
