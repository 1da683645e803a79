// Whether the address or the thread sanitizer is built in: OPPA_SANITIZED.

#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC
#define OPPA_SANITIZED 1
#elif defined(__has_feature)  // Clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OPPA_SANITIZED 1
#endif
#endif
#ifndef OPPA_SANITIZED
#define OPPA_SANITIZED 0
#endif
