"""Campaigns: many random attempts to find something unsound, forged, lost or late."""
