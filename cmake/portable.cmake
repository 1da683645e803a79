# A program that needs glibc 2.28 or newer and no other library (OPPA_PORTABLE): that of a wheel or an archive.
#
# The compiler is that of every build, so that results are the same bytes. Zig (PyPI: ziglang) links, because it has
# the symbols of old versions of glibc. The parts of libstdc++ that want newer ones are in portable/glibc.cc.
set(OPPA_GLIBC 2.28 CACHE STRING "The oldest glibc that the program runs on")
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Libraries that Debian has only as shared ones: their versions in Debian 12, from its sources.
include(FetchContent)
set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # a variable replaces an option
foreach(option BUILD_SHARED_LIBS ENABLE_SAMPLES ENABLE_OPENMP NLOPT_PYTHON NLOPT_OCTAVE NLOPT_MATLAB NLOPT_GUILE
        NLOPT_SWIG)
  set(${option} OFF)
endforeach()
set(debian http://deb.debian.org/debian/pool/main)
FetchContent_Declare(muparser URL ${debian}/m/muparser/muparser_2.3.3.orig.tar.gz
  URL_HASH SHA256=91d26d8274ae9cd9c776ee58250aeddc6b574f369eafd03b25045b858a2b8177)
FetchContent_Declare(nlopt URL ${debian}/n/nlopt/nlopt_2.7.1.orig.tar.gz
  URL_HASH SHA256=db88232fa5cef0ff6e39943fc63ab6074208831dc0031cf1545f6ecd31ae2a1a)
FetchContent_MakeAvailable(muparser nlopt)
add_library(PkgConfig::muparser ALIAS muparser)
add_library(PkgConfig::nlopt ALIAS nlopt)

# Libraries that can be used by their headers alone.
foreach(library fmt tomlplusplus)
  add_library(${library}_headers INTERFACE)
  add_library(${library}::${library} ALIAS ${library}_headers)
endforeach()
target_compile_definitions(fmt_headers INTERFACE FMT_HEADER_ONLY)

find_library(RE2_LIBRARY libre2.a REQUIRED)  # Debian's source lacks generated files
cmake_path(GET RE2_LIBRARY PARENT_PATH folder)
file(GLOB abseil ${folder}/libabsl_*.a)  # of which later versions than that of Debian 12 are made
list(APPEND RE2_LIBRARY ${abseil})
find_library(YAML_LIBRARY libyaml.a REQUIRED)
add_library(yaml INTERFACE)
add_library(PkgConfig::yaml ALIAS yaml)
target_link_libraries(yaml INTERFACE ${YAML_LIBRARY})

add_library(newer_glibc STATIC cmake/portable/glibc.cc)
link_libraries(newer_glibc)

foreach(library libstdc++.a libgcc.a)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library}
                  OUTPUT_VARIABLE ${library} OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endforeach()
set(CMAKE_CXX_LINK_EXECUTABLE "${Python3_EXECUTABLE} -m ziglang cc -target ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.${OPPA_GLIBC} \
-O2 -pie <OBJECTS> -o <TARGET> <LINK_LIBRARIES> ${libstdc++.a} -lunwind ${libgcc.a} -lm -lpthread -ldl")

# The licenses of what is linked.
set(licenses share/doc/oppa/licenses)
install(FILES ${muparser_SOURCE_DIR}/LICENSE DESTINATION ${licenses}/muparser COMPONENT program)
install(FILES ${nlopt_SOURCE_DIR}/COPYING DESTINATION ${licenses}/nlopt COMPONENT program)
install(DIRECTORY ${nlopt_SOURCE_DIR}/src/algs/ DESTINATION ${licenses}/nlopt COMPONENT program
        FILES_MATCHING PATTERN COPYRIGHT PATTERN COPYING)
foreach(package libcli11-dev libeigen3-dev libfmt-dev libre2-dev libtomlplusplus-dev libyaml-dev nlohmann-json3-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${licenses}/${package} COMPONENT program OPTIONAL)
endforeach()
