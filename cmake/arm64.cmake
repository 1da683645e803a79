# Compiles for arm64 on Debian of another architecture: make wheel-arm64. The packages are those of
# scripts/install-deps --arm64. The emulator runs the program where the installation asks for its output, with libc6:arm64:
# with that of the cross compiler (-L /usr/aarch64-linux-gnu), threads hang.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
