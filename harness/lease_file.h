// The files of a lease: what they are called and what they say.

#ifndef HARNESS_LEASE_FILE_H_
#define HARNESS_LEASE_FILE_H_

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

// "<prefix><epoch>[-...]": the epoch, nothing for another name.
[[nodiscard]] std::optional<std::int64_t> EpochOf(const std::string& name,
                                                  std::string_view prefix);

// Of the leases in the folder; 0: there is none.
[[nodiscard]] std::int64_t HighestEpoch(const std::filesystem::path& folder);

// What a lease file says: "count|host|boot|pid|start|job".
struct Holder {
  std::string count;  // "released" after the end
  std::string host, boot, pid, start, job;

  // This process, as it is at the beginning.
  [[nodiscard]] static Holder Self();

  // For people.
  [[nodiscard]] std::string Name() const;
  // On this boot of this host.
  [[nodiscard]] bool IsHere() const;
  // As far as can be told: it released the lease, or it is here no more.
  [[nodiscard]] bool IsGone() const;
  // The file.
  [[nodiscard]] std::string Text() const;
};

// Nothing for a lease that is still being written, or was cut off at that.
[[nodiscard]] std::optional<Holder> ReadHolder(
    const std::filesystem::path& path);

// The count has a fixed width, so that it is overwritten in place.
[[nodiscard]] std::string CountText(std::string_view count);

}  // namespace harness

#endif  // HARNESS_LEASE_FILE_H_
