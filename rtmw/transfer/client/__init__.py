"""The API of programs: senders and inboxes, and the line from their process to the core.

line        one a process and domain: frames to the core, and answers to the threads that wait for them
sender      `rtmw.Sender`, with transfer, transaction
inbox       `rtmw.Inbox`, and `rtmw.Letter`
"""
