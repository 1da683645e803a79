# Test programs, for tests/ and trainer/tests/.
find_package(GTest REQUIRED)
include(GoogleTest)
set(OPPA_TEST_TIMEOUT 120 CACHE STRING "Seconds after which a test counts as hanging")
set(OPPA_TEST_OPTIMIZATION -O1 CACHE STRING "How the tests themselves are compiled")
set(OPPA_TEST_SHARDS 0 CACHE STRING "Processes that share the tests of a program; 0: one per test")
find_package(Python3 COMPONENTS Interpreter)

# The common settings of all test programs: the folder of the sources and of the
# program, and the headers that all of them parse. The speed of tests is not
# measured, so they are optimized for compile time.
add_library(test_support STATIC ${CMAKE_SOURCE_DIR}/tests/fakes/paths.cc)
target_link_libraries(test_support PUBLIC common GTest::gtest GTest::gmock)
set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/fakes/paths.cc PROPERTIES COMPILE_DEFINITIONS
                            "OPPA_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\";OPPA_BINARY=\"$<TARGET_FILE:oppa>\"")
target_precompile_headers(test_support PRIVATE ${CMAKE_SOURCE_DIR}/tests/precompiled.h)
target_compile_options(test_support PUBLIC $<$<CONFIG:RelWithDebInfo>:${OPPA_TEST_OPTIMIZATION}>)

# oppa_tests(LAYER FOLDER LIBRARIES...): one test program per layer, labelled with
# the layer's name, from every *_test.cc under FOLDER. Each test file has a
# namespace of its own, LAYER::FILE_test, so that files can be compiled together.
function(oppa_tests layer folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${layer}_tests ${sources})
  target_link_libraries(${layer}_tests PRIVATE ${ARGN} test_support GTest::gtest_main)
  target_precompile_headers(${layer}_tests REUSE_FROM test_support)
  set_target_properties(${layer}_tests PROPERTIES UNITY_BUILD ${OPPA_UNITY} UNITY_BUILD_BATCH_SIZE 20)
  if(OPPA_TEST_SHARDS EQUAL 0)
    gtest_discover_tests(${layer}_tests NO_PRETTY_VALUES PROPERTIES LABELS ${layer} TIMEOUT ${OPPA_TEST_TIMEOUT} DISCOVERY_TIMEOUT 60)
    return()
  endif()
  math(EXPR last "${OPPA_TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${layer}_${shard} COMMAND ${layer}_tests --gtest_brief=1)
    set_tests_properties(${layer}_${shard} PROPERTIES LABELS ${layer} TIMEOUT ${OPPA_TEST_TIMEOUT}
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${OPPA_TEST_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

