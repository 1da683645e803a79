# A package for the Debian or Ubuntu that builds it, by the rules of `cmake --install`: `make deb`. The trainer is no
# part of it: it needs libraries of the machine's own GPU and processor.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program documents)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PACKAGE_CONTACT "The oppa maintainers <maintainers@oppa.invalid>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "planner and tuner of distributed training
oppa predicts which parallelism configuration of a model is fastest on given
GPUs and fits into their memory, and finds the best one with few and short
trials of the training program.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DEPENDS python3:any)  # examples of programs that run trials
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, libxgboost0")  # XGBoost is loaded at run time
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/deb-policy.cmake)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # cpack builds nothing
include(CPack)
