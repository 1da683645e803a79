# Changes the installed files to what Debian's policy requires. CPack runs it before it makes the package.
file(GLOB share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(doc ${share}/doc/oppa)
file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
file(REMOVE ${doc}/LICENSE)  # Debian has its text
file(READ ${share}/oppa/experiments/published/NOTICE notice)
file(WRITE ${doc}/copyright "Copyright 2026 The oppa maintainers
License: Apache-2.0, see /usr/share/common-licenses/Apache-2.0

${notice}")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog "oppa (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * See CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
execute_process(COMMAND gzip -9n ${doc}/changelog ${share}/man/man1/oppa.1 COMMAND_ERROR_IS_FATAL ANY)
