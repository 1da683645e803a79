// The names and contents of lease files.

#ifndef HARNESS_RECORDS_LEASE_FILE_H_
#define HARNESS_RECORDS_LEASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace harness {

inline constexpr std::string_view kLeasePrefix = ".lease-";
inline constexpr std::string_view kPublishPrefix = ".publish-";

[[nodiscard]] std::filesystem::path LeasePath(
    const std::filesystem::path& folder, std::int64_t epoch);

// Parses "<prefix><epoch>[-...]" and returns the epoch; nothing for any other
// name.
[[nodiscard]] std::optional<std::int64_t> EpochOf(const std::string& name,
                                                  std::string_view prefix);

// The highest epoch of the leases in the folder; 0: there is none.
[[nodiscard]] std::int64_t HighestEpoch(const std::filesystem::path& folder);

// The content of a lease file: "count|host|boot|pid|start|job". `boot` is the
// boot id and the PID namespace.
struct Holder {
  std::string count;  // "released" after the end
  std::string host, boot, pid, start, job;

  // This process, with the first count.
  [[nodiscard]] static Holder Self();

  // A description of the holder, for messages.
  [[nodiscard]] std::string Name() const;
  // In this PID namespace of this boot of this host.
  [[nodiscard]] bool IsHere() const;
  // It released the lease, or its process is here and no longer exists.
  [[nodiscard]] bool IsGone() const;
  // The content of the file.
  [[nodiscard]] std::string Text() const;
};

// Returns nothing for a lease that is not completely written.
[[nodiscard]] std::optional<Holder> ReadHolder(
    const std::filesystem::path& path);

// The count has a fixed width, so that it is overwritten in place.
inline constexpr std::size_t kCountWidth = 20;
[[nodiscard]] std::string CountText(std::string_view count);

}  // namespace harness

#endif  // HARNESS_RECORDS_LEASE_FILE_H_
